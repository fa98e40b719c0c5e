// Strategies are typed by people: nothing of what they type may be ignored, and a mistake gets the valid forms.
#include "core/plan/strategy_spec.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/config/profile.h"

using namespace memtune;
using namespace memtune::plan;

namespace {

void check_refused(const std::string& spec, const std::string& message) {
  CAPTURE(spec);
  CHECK_THROWS_WITH_AS(check_strategy(spec), message.c_str(), UsageError);
}

const std::string kKnown =
    "Known: none, checkpoint:full, checkpoint:every=n, checkpoint:op, offload:sync, offload:stream";

}  // namespace

TEST_CASE("a strategy without parameters has its defaults") {
  const StrategySpec spec = parse_strategy("offload:stream");
  CHECK(spec.info->name == "offload:stream");
  CHECK(spec.bytes("stash") == int64_t{2} << 30);
  CHECK(spec.bytes("min") == 1 << 20);
  CHECK(spec.bytes("prefetch") == 1 << 30);
  CHECK(spec.value("head") == "keep");
  CHECK(parse_strategy("none").values.empty());
}

TEST_CASE("parameters replace defaults, blanks do not matter") {
  const StrategySpec spec = parse_strategy(" offload:stream , min = 4 KiB ,head=move");
  CHECK(spec.bytes("min") == 4096);
  CHECK(spec.value("head") == "move");
  CHECK(spec.bytes("stash") == int64_t{2} << 30);
}

TEST_CASE("checkpoint:every carries its number in the mode") {
  const StrategySpec spec = parse_strategy("checkpoint:every=3,inputs=host");
  CHECK(spec.info->name == "checkpoint:every=n");
  CHECK(spec.every == 3);
  CHECK(spec.value("inputs") == "host");
}

TEST_CASE("a save list is split at plus signs") {
  CHECK(parse_strategy("checkpoint:op,save=a + b").list("save") == std::vector<std::string>{"a", "b"});
  CHECK(parse_strategy("checkpoint:op").list("save") == std::vector<std::string>{"matmul", "attention"});
}

TEST_CASE("an unknown strategy gets the nearest and the known ones") {
  check_refused("", "unknown strategy ''. " + kKnown);
  check_refused("checkpoint", "unknown strategy 'checkpoint'; did you mean 'checkpoint:op'? " + kKnown);
  check_refused("checkpoint:ful", "unknown strategy 'checkpoint:ful'; did you mean 'checkpoint:full'? " + kKnown);
  check_refused("offload:strem", "unknown strategy 'offload:strem'; did you mean 'offload:stream'? " + kKnown);
  check_refused("None", "unknown strategy 'None'; did you mean 'none'? " + kKnown);
}

TEST_CASE("checkpoint:every says what its number must be") {
  const std::string rule = ": n must be a whole number of at least 1, as in checkpoint:every=2";
  check_refused("checkpoint:every", "checkpoint:every needs its number: checkpoint:every=2 is every second block");
  for (const std::string n : {"0", "-1", "abc", "", "2.5", "n", "99999999999999999999"})
    check_refused("checkpoint:every=" + n, "checkpoint:every=" + n + rule);
}

TEST_CASE("a wrong parameter gets those of its strategy") {
  check_refused("none,min=1", "none takes no parameters, so 'min' means nothing to it");
  check_refused("checkpoint:full,save=matmul", "unknown parameter of checkpoint:full 'save'. Known: inputs");
  check_refused("checkpoint:full,input=host",
                "unknown parameter of checkpoint:full 'input'; did you mean 'inputs'? Known: inputs");
  check_refused("offload:sync,stash=1", "unknown parameter of offload:sync 'stash'. Known: min, head");
  check_refused("checkpoint:full,inputs", "checkpoint:full: inputs needs a value: inputs=keep");
  check_refused("checkpoint:full,", "checkpoint:full: '' names no parameter; write key=value");
  check_refused("checkpoint:full,=host", "checkpoint:full: '=host' names no parameter; write key=value");
  check_refused("checkpoint:full,inputs=host,inputs=keep", "checkpoint:full: inputs is given twice");
}

TEST_CASE("a wrong value gets the valid ones") {
  check_refused("checkpoint:full,inputs=disk", "checkpoint:full: inputs: 'disk' is not one of keep | host");
  check_refused("checkpoint:full,inputs=", "checkpoint:full: inputs: '' is not one of keep | host");
  check_refused("offload:stream,head=host", "offload:stream: head: 'host' is not one of keep | move");
  check_refused("offload:stream,stash=potato",
                "offload:stream: stash: 'potato' is not a byte count; valid forms: 16GiB, 1.5GiB, 80GB (decimal), 64M "
                "(binary), 123 (bytes)");
  check_refused("checkpoint:op,save=matmul+",
                "checkpoint:op: save: 'matmul+' has an empty name; it takes matmul, matmul-all, attention or op names, "
                "with + between");
}

TEST_CASE("every listed strategy has help, and every default of it is valid") {
  for (const StrategyInfo& info : strategies()) {
    CHECK_FALSE(info.help.empty());
    std::string spec = info.name == "checkpoint:every=n" ? "checkpoint:every=2" : info.name;
    for (const ParameterInfo& parameter : info.parameters) {
      CHECK_FALSE(parameter.help.empty());
      spec += "," + parameter.name + "=" + parameter.default_value;
    }
    CAPTURE(spec);
    CHECK_NOTHROW(check_strategy(spec));
  }
}

TEST_CASE("every sweep profile names valid strategies") {
  for (const config::Profile& profile : config::profiles()) {
    if (profile.kind != "sweeps") continue;
    const auto specs = nlohmann::json::parse(profile.json).at("strategies").get<std::vector<std::string>>();
    CHECK_FALSE(specs.empty());
    for (const std::string& spec : specs) CHECK_NOTHROW(check_strategy(spec));
  }
}
