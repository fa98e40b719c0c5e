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

// Of one part.
StrategySpec parse(const std::string& text) {
  const std::vector<StrategySpec> parts = parse_strategy(text);
  CHECK(parts.size() == 1);
  return parts.front();
}

// "checkpoint:op offload:sync"
std::string names(const std::string& text) {
  std::string names;
  for (const StrategySpec& part : parse_strategy(text)) names += (names.empty() ? "" : " ") + part.info->name;
  return names;
}

const std::string kKnown =
    "Known: none, checkpoint:full, checkpoint:every=n, checkpoint:op, checkpoint:cheap, offload:sync, "
    "offload:stream, offload:group";

}  // namespace

TEST_CASE("a strategy without parameters has its defaults") {
  const StrategySpec spec = parse("offload:stream");
  CHECK(spec.info->name == "offload:stream");
  CHECK(spec.bytes("stash") == int64_t{8} << 30);
  CHECK(spec.bytes("min") == config::TransferSettings{}.min_bytes);
  CHECK(spec.bytes("prefetch") == config::TransferSettings{}.prefetch_bytes);
  CHECK(spec.value("head") == "keep");
  CHECK(spec.place("tier") == config::Place::host);
  CHECK(spec.share("fraction") == 1);
  CHECK(spec.count("keep_last") == 0);
  CHECK(spec.blocks().all());
  CHECK(parse("none").values.empty());
  CHECK(parse("offload:group").count("keep_last") == 1);
  CHECK(parse("offload:group").count("prefetch") == 1);
  CHECK(parse("offload:group").count("in_flight") == 1);
}

TEST_CASE("parameters replace defaults, blanks do not matter") {
  const StrategySpec spec = parse(" offload:stream , min = 4 KiB ,head=move");
  CHECK(spec.bytes("min") == 4096);
  CHECK(spec.value("head") == "move");
  CHECK(spec.bytes("stash") == int64_t{8} << 30);
}

TEST_CASE("checkpoint:every carries its number in the mode") {
  const StrategySpec spec = parse("checkpoint:every=3,inputs=host");
  CHECK(spec.info->name == "checkpoint:every=n");
  CHECK(spec.every == 3);
  CHECK(spec.value("inputs") == "host");
}

TEST_CASE("a save list is split at plus signs") {
  CHECK(parse("checkpoint:op,save=a + b").list("save") == std::vector<std::string>{"a", "b"});
  CHECK(parse("checkpoint:op").list("save") == std::vector<std::string>{"matmul", "attention"});
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
  check_refused("checkpoint:full,save=matmul",
                "unknown parameter of checkpoint:full 'save'. Known: inputs, segment, blocks");
  check_refused("checkpoint:full,input=host",
                "unknown parameter of checkpoint:full 'input'; did you mean 'inputs'? Known: inputs, segment, blocks");
  check_refused(
      "offload:sync,stash=1",
      "unknown parameter of offload:sync 'stash'. Known: tier, memory, fraction, min, keep_last, blocks, head");
  check_refused("checkpoint:full,inputs", "checkpoint:full: inputs needs a value: inputs=keep");
  check_refused("checkpoint:full,", "checkpoint:full: '' names no parameter; write key=value");
  check_refused("checkpoint:full,=host", "checkpoint:full: '=host' names no parameter; write key=value");
  check_refused("checkpoint:full,inputs=host,inputs=keep", "checkpoint:full: inputs is given twice");
}

TEST_CASE("a wrong value gets the valid ones") {
  check_refused("checkpoint:full,inputs=disc", "checkpoint:full: inputs: 'disc' is not one of keep | host | disk");
  check_refused("checkpoint:full,inputs=", "checkpoint:full: inputs: '' is not one of keep | host | disk");
  check_refused("offload:sync,tier=keep", "offload:sync: tier: 'keep' is not one of host | disk");
  for (const std::string share : {"1.1", "-0.1", "", "half", "40%", "nan"})
    check_refused("offload:sync,fraction=" + share,
                  "offload:sync: fraction: '" + share + "' is not a number from 0 to 1");
  for (const std::string count : {"-1", "1.5", "", "x", "1000001"})
    check_refused("offload:stream,keep_last=" + count,
                  "offload:stream: keep_last: '" + count + "' is not a whole number from 0");
  check_refused("offload:group,in_flight=0", "offload:group: in_flight: '0' is not a whole number from 1");
  check_refused(
      "checkpoint:full,blocks=9-0",
      "checkpoint:full: blocks: '9-0' names no blocks; write numbers and ranges with : between, as 0-9:12:20- "
      "(to the last), or all");
  check_refused("offload:stream,head=host", "offload:stream: head: 'host' is not one of keep | move");
  check_refused("offload:stream,stash=potato",
                "offload:stream: stash: 'potato' is not a byte count; valid forms: 16GiB, 1.5GiB, 80GB (decimal), 64M "
                "(binary), 123 (bytes)");
  check_refused("checkpoint:op,save=matmul+",
                "checkpoint:op: save: 'matmul+' has an empty name; it takes matmul, matmul-all, attention or op names, "
                "with + between");
}

TEST_CASE("a plus joins parts, and elements of a save list where no family follows") {
  CHECK(names("checkpoint:cheap+offload:stream,fraction=0.4") == "checkpoint:cheap offload:stream");
  CHECK(names(" checkpoint:full , inputs=host + offload:sync ") == "checkpoint:full offload:sync");
  const std::vector<StrategySpec> parts = parse_strategy("checkpoint:op,save=matmul+attention+offload:stream,min=0");
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].list("save") == std::vector<std::string>{"matmul", "attention"});
  CHECK(parts[1].bytes("min") == 0);
  check_refused("checkpoint:full+ofload:stream",
                "unknown strategy 'ofload:stream'; did you mean 'offload:stream'? " + kKnown);
  check_refused("checkpoint:full+offload:strem",
                "unknown strategy 'offload:strem'; did you mean 'offload:stream'? " + kKnown);
}

TEST_CASE("none is joined to nothing") {
  const std::string message = "none keeps everything: nothing can be joined to it";
  check_refused("none+offload:stream", message);
  check_refused("checkpoint:full+none", message);
  check_refused("checkpoint:op,save=matmul+none", message);
}

TEST_CASE("parts of one family are for different blocks") {
  CHECK(names("checkpoint:full,blocks=0-3+checkpoint:cheap,blocks=4-+offload:stream").ends_with("offload:stream"));
  const std::string advice = " are for the same blocks; give each its own, as blocks=0-9 and blocks=10-";
  check_refused("checkpoint:full+checkpoint:cheap", "checkpoint:full and checkpoint:cheap" + advice);
  check_refused("checkpoint:full,blocks=0-3+checkpoint:cheap,blocks=3-",
                "checkpoint:full and checkpoint:cheap" + advice);
  check_refused("offload:sync+checkpoint:full+offload:sync", "offload:sync and offload:sync" + advice);
}

TEST_CASE("all offload parts copy in one way") {
  CHECK_NOTHROW(check_strategy("offload:stream,blocks=0-3,tier=disk+offload:stream,blocks=4-,fraction=0.5"));
  check_refused("offload:stream,blocks=0-3+offload:group,blocks=4-",
                "offload:stream and offload:group exclude each other: a plan copies in one way");
  check_refused("offload:stream,blocks=0-3,min=0+offload:stream,blocks=4-",
                "offload:stream: min must be the same in every part, not 0 and 1MiB");
}

TEST_CASE("what waits on disk is told from the text") {
  for (const std::string spec :
       {"checkpoint:full,inputs=disk", "offload:group,tier=disk", "checkpoint:cheap+offload:sync,tier=disk"})
    CHECK(uses_disk(spec));
  for (const std::string spec : {"none", "checkpoint:full,inputs=host", "checkpoint:op+offload:stream"})
    CHECK_FALSE(uses_disk(spec));
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
