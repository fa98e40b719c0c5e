// Users type strategies. No part of the text may be ignored, and an error lists the valid forms.
#include "core/plan/strategy/strategy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/embedded_json_preset.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::strategy_strategy_test {

using namespace memtune;
using namespace memtune::plan;

namespace {

void check_refused(const std::string& text, const std::string& message) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(Strategy::parse(text), message.c_str(), UsageError);
}

// Parses a strategy of one part.
StrategyPart parse(const std::string& text) {
  const Strategy strategy = Strategy::parse(text);
  CHECK(strategy.parts().size() == 1);
  return strategy.parts().front();
}

std::string canonical(const std::string& text) { return to_string(Strategy::parse(text)); }

// Returns the names of the parts, such as "checkpoint:op offload:sync".
std::string names(const std::string& text) {
  std::string names;
  const Strategy strategy = Strategy::parse(text);
  for (const StrategyPart& part : strategy.parts()) names += (names.empty() ? "" : " ") + std::string(part.info().name);
  return names;
}

const std::string kKnown =
    "Known: none, checkpoint:full, checkpoint:every=n, checkpoint:op, checkpoint:cheap, offload:sync, "
    "offload:stream, offload:group, states=host, checkpoint:hf-offload, checkpoint:axolotl-hidden, "
    "checkpoint:deepspeed-cpu, checkpoint:titan-full, "
    "checkpoint:titan-selective, checkpoint:megatron-uniform, checkpoint:megatron-block, offload:torchtune, "
    "offload:trl, offload:swift";

}  // namespace

TEST_CASE("a strategy without parameters has its defaults") {
  const StrategyPart part = parse("offload:stream");
  CHECK(part.kind() == StrategyKind::offload_stream);
  CHECK(part.bytes(StrategyParameterId::stash) == int64_t{8} << 30);
  CHECK(part.bytes(StrategyParameterId::min) == TransferSettings{}.min_bytes);
  CHECK(part.bytes(StrategyParameterId::prefetch) == TransferSettings{}.prefetch_bytes);
  CHECK(part.word(StrategyParameterId::head) == "keep");
  CHECK(part.place(StrategyParameterId::tier) == TensorPlacement::host);
  CHECK(part.share(StrategyParameterId::fraction) == 1);
  CHECK(part.count(StrategyParameterId::keep_last) == 0);
  CHECK(part.blocks().all());
  CHECK(part.changed().empty());
  CHECK(Strategy().is_none());
  CHECK(Strategy() == Strategy::parse("none"));
  CHECK(parse("offload:group").count(StrategyParameterId::keep_last) == 1);
  CHECK(parse("offload:group").count(StrategyParameterId::prefetch) == 1);
  CHECK(parse("offload:group").count(StrategyParameterId::in_flight) == 1);
}

TEST_CASE("parameters override defaults and blanks are ignored") {
  const StrategyPart part = parse(" offload:stream , min = 4 KiB ,head=move");
  CHECK(part.bytes(StrategyParameterId::min) == 4096);
  CHECK(part.word(StrategyParameterId::head) == "move");
  CHECK(part.bytes(StrategyParameterId::stash) == int64_t{8} << 30);
  CHECK(part.changed() == std::vector{StrategyParameterId::min, StrategyParameterId::head});
}

TEST_CASE("checkpoint:every has its number in its name") {
  const StrategyPart part = parse("checkpoint:every=3,inputs=host");
  CHECK(part.kind() == StrategyKind::checkpoint_every);
  CHECK(part.every() == 3);
  CHECK(part.place(StrategyParameterId::inputs) == TensorPlacement::host);
}

TEST_CASE("a save list is split at plus signs") {
  CHECK(parse("checkpoint:op,save=a + b").names(StrategyParameterId::save) == std::vector<std::string>{"a", "b"});
  CHECK(parse("checkpoint:op").names(StrategyParameterId::save) == std::vector<std::string>{"matmul", "attention"});
}

TEST_CASE("equal strategies have one canonical form") {
  const std::pair<const char*, const char*> cases[] = {
      {" none ", "none"},
      {"checkpoint:full , inputs = keep", "checkpoint:full"},
      {"checkpoint:every = 02", "checkpoint:every=2"},
      {"checkpoint:full,blocks=9:0-3:4,inputs=host", "checkpoint:full,inputs=host,blocks=0-4:9"},
      {"checkpoint:op,save=attention+matmul", "checkpoint:op"},
      {"checkpoint:op,save=silu + attention + add + silu + matmul-all",
       "checkpoint:op,save=matmul-all+attention+add+silu"},
      {"offload:stream, keep_last = 2,fraction=0.40", "offload:stream,fraction=0.4,keep_last=2"},
      {"offload:stream,fraction=1.0,min=1024KiB,stash=8 GiB,tier=host", "offload:stream"},
      {"offload:stream,min=1.5GiB", "offload:stream,min=1536MiB"},
      {"offload:stream,min=0,stash=17,prefetch=0B", "offload:stream,stash=17B,min=0,prefetch=0"},
      {"offload:group,prefetch=1,in_flight=3", "offload:group,in_flight=3"},
      {"offload:sync,fraction=-0", "offload:sync,fraction=0"},
      {"offload:sync,fraction=1e-5", "offload:sync,fraction=1e-05"},
      {"checkpoint:cheap + offload:stream,head=move,memory=pageable",
       "checkpoint:cheap+offload:stream,memory=pageable,head=move"},
  };
  for (const auto& [text, wanted] : cases) {
    CHECK(canonical(text) == wanted);
    CHECK(canonical(wanted) == wanted);
    CHECK(Strategy::parse(text) == Strategy::parse(wanted));
  }
}

TEST_CASE("the order of parts is kept because a later part places what earlier ones left") {
  CHECK(canonical("offload:stream+checkpoint:cheap") == "offload:stream+checkpoint:cheap");
  CHECK_FALSE(Strategy::parse("offload:stream+checkpoint:cheap") == Strategy::parse("checkpoint:cheap+offload:stream"));
}

TEST_CASE("a part about states stands at the end, wherever it was written") {
  CHECK(canonical("states=host+checkpoint:full") == "checkpoint:full+states=host");
  CHECK(canonical("states=host, outside=keep ,moments=keep+checkpoint:full") ==
        "checkpoint:full+states=host,moments=keep");
  CHECK(canonical("states=host,blocks=2-+offload:sync+states=host,blocks=0-1,parameters=keep") ==
        "offload:sync+states=host,blocks=2-+states=host,parameters=keep,blocks=0-1");
  CHECK(Strategy::parse("states=host").offloads_states());
  CHECK_FALSE(Strategy::parse("states=host").offloads_activations());
  CHECK_FALSE(Strategy::parse("offload:sync").offloads_states());
  check_refused("states=host+states=host,blocks=1",
                "states=host and states=host are for the same blocks; give each its own, as blocks=0-9 and blocks=10-");
  check_refused("states=host,moments=disk", "states=host: moments: 'disk' is not one of host | keep");
}

TEST_CASE("every parameter of every strategy is read back as written") {
  const auto another = [](const StrategyParameterInfo& info) -> std::string {
    switch (info.form) {
      case StrategyParameterType::words: return trim(split(info.words, '|').back());
      case StrategyParameterType::names: return "attention+gelu";
      case StrategyParameterType::share: return "0.35";
      case StrategyParameterType::count: return "3";
      case StrategyParameterType::positive: return "4";
      case StrategyParameterType::bytes: return "3MiB";
      case StrategyParameterType::blocks: return "0-1:3-";
    }
    return "";
  };
  for (const StrategyInfo& info : strategies()) {
    StrategyPart part(info, info.kind == StrategyKind::checkpoint_every ? 2 : 1);
    for (const StrategyParameterInfo& parameter : info.parameters) {
      part.set(parameter.parameter, another(parameter));
      CAPTURE(to_string(part));
      CHECK(parse(to_string(part)) == part);
      CHECK(std::ranges::count(part.changed(), parameter.parameter) == (another(parameter) != parameter.default_value));
    }
  }
}

TEST_CASE("a parameter is changed in every part that takes it and nothing else is") {
  const Strategy strategy =
      Strategy::parse("checkpoint:cheap+offload:stream,blocks=0-3,fraction=0.4+offload:stream,blocks=4-");
  CHECK(to_string(strategy.with(StrategyParameterId::min, "4MiB")) ==
        "checkpoint:cheap+offload:stream,fraction=0.4,min=4MiB,blocks=0-3+offload:stream,min=4MiB,blocks=4-");
  CHECK(to_string(strategy.with(StrategyParameterId::inputs, "host"))
            .starts_with("checkpoint:cheap,inputs=host+offload:stream,"));
  CHECK(to_string(strategy.with(StrategyParameterId::fraction, [](const StrategyPart& part) {
          return std::to_string(part.share(StrategyParameterId::fraction) / 2);
        })) == "checkpoint:cheap+offload:stream,fraction=0.2,blocks=0-3+offload:stream,fraction=0.5,blocks=4-");
  CHECK(strategy.with(StrategyParameterId::segment, "4") == strategy);
  CHECK_THROWS_WITH_AS(strategy.with(StrategyParameterId::fraction, "2"),
                       "offload:stream: fraction: '2' is not a number from 0 to 1", UsageError);
  CHECK_THROWS_AS(strategy.with(StrategyParameterId::blocks, "all"), UsageError);
}

TEST_CASE("a part that changes its kind keeps the parameters that both kinds take") {
  const auto changed = [](const char* text, StrategyKind from, StrategyKind to, int64_t every = 1) {
    return to_string(Strategy::parse(text).with(from, to, every));
  };
  CHECK(changed("checkpoint:full,inputs=host+offload:sync,fraction=0.4,head=move", StrategyKind::offload_sync,
                StrategyKind::offload_stream) == "checkpoint:full,inputs=host+offload:stream,fraction=0.4,head=move");
  CHECK(changed("checkpoint:full,segment=4,blocks=0-3", StrategyKind::checkpoint_full, StrategyKind::checkpoint_every,
                2) == "checkpoint:every=2,blocks=0-3");
  CHECK(changed("none", StrategyKind::checkpoint_full, StrategyKind::checkpoint_op) == "none");
}

TEST_CASE("a strategy's name is made canonical and any other name stays unchanged") {
  CHECK(canonical_name("offload:stream , min=1MiB") == "offload:stream");
  CHECK(canonical_name("dear-13, by hand") == "dear-13, by hand");
  CHECK(canonical_name("") == "");
  CHECK(Strategy::of_name("offload:stream") == Strategy::parse("offload:stream"));
  CHECK_FALSE(Strategy::of_name("dear-13, by hand"));
}

TEST_CASE("an unknown strategy is refused with the nearest and the known ones") {
  check_refused("", "unknown strategy ''. " + kKnown);
  check_refused("offload",
                "'offload' is a family of strategies: offload:sync, offload:stream, offload:group, "
                "offload:torchtune, offload:trl, offload:swift");
  check_refused("checkpoint:ful", "unknown strategy 'checkpoint:ful'; did you mean 'checkpoint:full'? " + kKnown);
  check_refused("offload:strem", "unknown strategy 'offload:strem'; did you mean 'offload:stream'? " + kKnown);
  check_refused("None", "unknown strategy 'None'; did you mean 'none'? " + kKnown);
}

TEST_CASE("a wrong number of checkpoint:every is refused with the rule for it") {
  const std::string rule = ": n must be a whole number of at least 1, as in checkpoint:every=2";
  check_refused("checkpoint:every", "checkpoint:every needs its number: checkpoint:every=2 is every second block");
  for (const std::string n : {"0", "-1", "abc", "", "2.5", "n", "99999999999999999999"})
    check_refused("checkpoint:every=" + n, "checkpoint:every=" + n + rule);
}

TEST_CASE("a wrong parameter is refused with the known ones of its strategy") {
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

TEST_CASE("a wrong value of a parameter is refused with the valid ones") {
  check_refused("checkpoint:full,inputs=disc", "checkpoint:full: inputs: 'disc' is not one of keep | host | disk");
  check_refused("checkpoint:full,inputs=", "checkpoint:full: inputs: '' is not one of keep | host | disk");
  check_refused("offload:sync,tier=keep", "offload:sync: tier: 'keep' is not one of host | disk");
  for (const std::string share : {"1.1", "-0.1", "", "half", "40%", "nan"})
    check_refused("offload:sync,fraction=" + share,
                  "offload:sync: fraction: '" + share + "' is not a number from 0 to 1");
  for (const std::string count : {"-1", "1.5", "", "x"})
    check_refused("offload:stream,keep_last=" + count,
                  "offload:stream: keep_last: '" + count + "' is not a whole number from 0");
  check_refused("offload:stream,keep_last=1000001", "offload:stream: keep_last: '1000001' is more than 1000000");
  check_refused("checkpoint:full,segment=2147483647", "checkpoint:full: segment: '2147483647' is more than 1000000");
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

TEST_CASE("a plus joins parts or names of a save list") {
  CHECK(names("checkpoint:cheap+offload:stream,fraction=0.4") == "checkpoint:cheap offload:stream");
  CHECK(names(" checkpoint:full , inputs=host + offload:sync ") == "checkpoint:full offload:sync");
  const Strategy strategy = Strategy::parse("checkpoint:op,save=matmul+add+offload:stream,min=0");
  REQUIRE(strategy.parts().size() == 2);
  CHECK(strategy.parts()[0].names(StrategyParameterId::save) == std::vector<std::string>{"matmul", "add"});
  CHECK(strategy.parts()[1].bytes(StrategyParameterId::min) == 0);
  check_refused("checkpoint:full+ofload:stream",
                "unknown strategy 'ofload:stream'; did you mean 'offload:stream'? " + kKnown);
  check_refused("checkpoint:full+offload:strem",
                "unknown strategy 'offload:strem'; did you mean 'offload:stream'? " + kKnown);
}

TEST_CASE("none cannot be joined to another part") {
  const std::string message = "none keeps everything: nothing can be joined to it";
  check_refused("none+offload:stream", message);
  check_refused("checkpoint:full+none", message);
  check_refused("checkpoint:op,save=matmul+none", message);
}

TEST_CASE("parts of one family must have different blocks") {
  CHECK(names("checkpoint:full,blocks=0-3+checkpoint:cheap,blocks=4-+offload:stream").ends_with("offload:stream"));
  const std::string advice = " are for the same blocks; give each its own, as blocks=0-9 and blocks=10-";
  check_refused("checkpoint:full+checkpoint:cheap", "checkpoint:full and checkpoint:cheap" + advice);
  check_refused("checkpoint:full,blocks=0-3+checkpoint:cheap,blocks=3-",
                "checkpoint:full and checkpoint:cheap" + advice);
  check_refused("offload:sync+checkpoint:full+offload:sync", "offload:sync and offload:sync" + advice);
}

TEST_CASE("all offload parts must have the same transfer settings") {
  CHECK_NOTHROW(Strategy::parse("offload:stream,blocks=0-3,tier=disk+offload:stream,blocks=4-,fraction=0.5"));
  check_refused("offload:stream,blocks=0-3+offload:group,blocks=4-",
                "offload:stream and offload:group exclude each other: a plan copies in one way");
  check_refused("offload:stream,blocks=0-3,min=0+offload:stream,blocks=4-",
                "offload:stream: min must be the same in every part, not 0 and 1MiB");
}

TEST_CASE("a strategy shows whether it uses the disk") {
  for (const std::string spec :
       {"checkpoint:full,inputs=disk", "offload:group,tier=disk", "checkpoint:cheap+offload:sync,tier=disk"})
    CHECK(Strategy::parse(spec).uses_disk());
  for (const std::string spec : {"none", "checkpoint:full,inputs=host", "checkpoint:op+offload:stream"})
    CHECK_FALSE(Strategy::parse(spec).uses_disk());
}

TEST_CASE("every listed strategy has help and valid defaults") {
  for (const StrategyInfo& info : strategies()) {
    CHECK_FALSE(info.help.empty());
    std::string spec(info.kind == StrategyKind::checkpoint_every ? "checkpoint:every=2" : info.name);
    for (const StrategyParameterInfo& parameter : info.parameters) {
      CHECK_FALSE(parameter.help.empty());
      CHECK_FALSE(values_text(parameter).empty());
      spec.append(",").append(parameter.name).append("=").append(parameter.default_value);
    }
    CAPTURE(spec);
    CHECK(parse(spec).changed().empty());
  }
}

TEST_CASE("every sweep profile names valid strategies") {
  for (const EmbeddedJsonPreset& profile : profiles()) {
    if (profile.kind != "sweeps") continue;
    const auto specs = nlohmann::json::parse(profile.json).at("strategies").get<std::vector<std::string>>();
    CHECK_FALSE(specs.empty());
    for (const std::string& spec : specs) CHECK_NOTHROW(Strategy::parse(spec));
  }
}

TEST_CASE("the engine of another trainer is a strategy of its own") {
  CHECK(canonical("offload:torchtune") == "offload:torchtune");
  CHECK(canonical("checkpoint:full + offload:trl") == "checkpoint:full+offload:trl");
  CHECK(canonical("checkpoint:hf-offload,every=2") == "checkpoint:hf-offload,every=2");
  CHECK(canonical("checkpoint:megatron-uniform,layers=1") == "checkpoint:megatron-uniform");
  CHECK(parse("offload:trl").blocks().all());
  CHECK(parse("offload:trl") != parse("offload:torchtune"));
  CHECK(Strategy::parse("offload:swift").offloads());
  CHECK_FALSE(Strategy::parse("offload:swift").uses_disk());
  check_refused("offload:torchtune,min=1KiB", "offload:torchtune takes no parameters, so 'min' means nothing to it");
  check_refused("offload:torchtune+offload:trl",
                "offload:torchtune and offload:trl exclude each other: a plan copies in one way");
}

}  // namespace memtune::strategy_strategy_test
