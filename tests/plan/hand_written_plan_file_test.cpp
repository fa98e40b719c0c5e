// Plan files are written by hand. Each rule does what it says, or the error names file, rule and field.
#include "core/plan/rules/hand_written_plan_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/plan/rules/rule_scope.h"
#include "tests/plan/program.h"
#include "tests/support/run_program.h"

namespace memtune::plan_file_test {

using namespace memtune;
using namespace memtune::plan;
using namespace memtune::test;

namespace {

HandWrittenPlanFile file(const std::string& text, const std::string& name = "mine.json") {
  const ScratchFolder folder;
  std::ofstream(folder.path / name) << text;
  return HandWrittenPlanFile(folder.path / name);
}

// {"version": 1, "rules": [<rules>]}
HandWrittenPlanFile rules(const std::string& rules) { return file(R"({"version": 1, "rules": [)" + rules + "]}"); }

void check_refused(const std::string& text, const std::string& message) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(file(text), message.c_str(), UsageError);
}

void check_rule_refused(const std::string& rule, const std::string& message) {
  check_refused(R"({"version": 1, "rules": [{"op": "linear", "outputs": "host"}, )" + rule + "]}", message);
}

// A decoder with submodules in its blocks: attn, mlp and norms.
ProgramFacts model() {
  ProgramFacts facts = decoder(2);
  const char* const inner[] = {".n1",     ".attn.wq", ".attn.wk", ".attn.wv", ".attn",   ".attn",
                               ".attn",   ".attn",    ".attn",    ".attn.wo", "",        ".n2",
                               ".mlp.w1", ".mlp.w3",  ".mlp",     ".mlp",     ".mlp.w2", ""};
  for (ProgramOpFacts& op : facts.ops)
    if (op.block >= 0) op.region += inner[(&op - facts.ops.data() - 1) % kDecoderOps];
  return facts;
}

std::string placed_by(const std::string& text) { return placed(rules(text).make_plan(model())); }

void check_selects_nothing(const std::string& rule, const std::string& message) {
  CAPTURE(rule);
  const HandWrittenPlanFile plan = rules(rule);
  CHECK_THROWS_WITH_AS(plan.make_plan(model()), message.c_str(), UsageError);
}

}  // namespace

TEST_CASE("a plan file has the name in it or the name of the file") {
  CHECK(file(R"({"version": 1, "name": "half and half"})").name() == "half and half");
  CHECK(file(R"({"version": 1})", "mine.plan.json").name() == "mine.plan");
  CHECK(file(R"({"version": 1, "name": "a"})").make_plan(model()).strategy == "a");
  CHECK(file(R"({"version": 1})").make_plan(model()).keeps_everything());
}

TEST_CASE("rules override the strategy and a later rule overrides an earlier one") {
  const HandWrittenPlanFile plan = file(R"({"version": 1, "strategy": "checkpoint:cheap", "rules": [
      {"op": "silu", "outputs": "keep"}, {"blocks": "1", "op": "silu", "outputs": "host"}]})");
  CHECK(placed(plan.make_plan(model())) ==
        "1 recompute/keep, 7-8 recompute/keep, 12 recompute/keep, 16 recompute/keep, "
        "19 recompute/keep, 25-26 recompute/keep, 30 recompute/keep, 33 host/keep, 34 recompute/keep");
}

TEST_CASE("a rule selects the ops that all its selectors match") {
  CHECK(placed_by(R"({"region": "layers.*.mlp.w1", "outputs": "host"})") == "13 host/keep, 31 host/keep");
  CHECK(placed_by(R"({"region": "layers.*.mlp", "op": "linear", "blocks": "1-", "outputs": "host"})") ==
        "31-32 host/keep, 35 host/keep");
  CHECK(placed_by(R"({"region": "layers.0", "op": "aten::add", "outputs": "recompute", "saved": "disk"})") ==
        "11 recompute/disk, 18 recompute/disk");
  CHECK(placed_by(R"({"op": "linear", "saved": "recompute"})").find("38 keep/recompute") != std::string::npos);
}

TEST_CASE("a rule selects ops by class") {
  CHECK(placed_by(R"({"op": "attention", "outputs": "host"})") == "9 host/keep, 27 host/keep");
  CHECK(placed_by(R"({"op": "norm", "blocks": "0", "outputs": "host"})") == "1 host/keep, 12 host/keep");
  CHECK(placed_by(R"({"op": "matmul", "blocks": "0", "outputs": "host"})") ==
        "2-4 host/keep, 10 host/keep, 13-14 host/keep, 17 host/keep");
  CHECK(placed_by(R"({"op": "cheap", "blocks": "0", "outputs": "host"})") ==
        "1 host/keep, 5-8 host/keep, 11-12 host/keep, 15-16 host/keep, 18 host/keep");
}

TEST_CASE("inputs_of selects what a region reads from outside and blocks are the region's") {
  CHECK(placed_by(R"({"inputs_of": "layers.*.mlp", "outputs": "host"})") == "12 host/keep, 30 host/keep");
  CHECK(placed_by(R"({"inputs_of": "layers.*", "outputs": "host"})") == "0 host/keep, 18 host/keep");
  CHECK(placed_by(R"({"inputs_of": "layers.*", "blocks": "1", "outputs": "disk"})") == "18 disk/keep");
  CHECK(placed_by(R"({"inputs_of": "layers.*.attn.wo", "op": "attention", "outputs": "host"})") ==
        "9 host/keep, 27 host/keep");
}

TEST_CASE("a glob matches the modules that it names and everything inside them") {
  CHECK(matched_region("layers.*.mlp", "layers.3.mlp.w1") == "layers.3.mlp");
  CHECK(matched_region("layers.*.mlp", "layers.3.mlp") == "layers.3.mlp");
  CHECK(matched_region("layers.*.mlp", "layers.3.mlp2") == "");
  CHECK(matched_region("layers.*.mlp", "layers.3") == "");
  CHECK(matched_region("*", "head") == "head");
}

TEST_CASE("transfer settings and saved_min_bytes override those of the strategy one by one") {
  const Plan plan = file(R"({"version": 1, "strategy": "offload:stream,stash=1GiB,min=4KiB",
      "transfer": {"prefetch_bytes": 7, "schedule": "block"}, "saved_min_bytes": 9})")
                        .make_plan(model());
  CHECK(plan.transfer.stash_bytes == 1 << 30);
  CHECK(plan.transfer.prefetch_bytes == 7);
  CHECK(plan.transfer.schedule == plan::ActivationOffloadCopyGranularity::block);
  CHECK(plan.saved_min_bytes == 9);
  CHECK(file(R"({"version": 1, "strategy": "offload:sync,min=3"})").make_plan(model()).saved_min_bytes == 3);
}

TEST_CASE("the plan that a run folder keeps is a plan file too") {
  nlohmann::json kept = plan_of("checkpoint:op,inputs=host", model());
  const HandWrittenPlanFile plan = file(kept.dump());
  nlohmann::json again = plan.make_plan(model());
  CHECK(again.at("strategy") == "mine");
  again["strategy"] = kept["strategy"];
  CHECK(again == kept);
  kept["name"] = "kept";
  CHECK(file(kept.dump()).name() == "kept");
}

TEST_CASE("a plan that a run folder keeps is refused for another model") {
  const auto check = [](const nlohmann::json& placement, const std::string& message) {
    const nlohmann::json plan = {{"version", 1}, {"placements", {placement}}};
    CHECK_THROWS_WITH_AS(file(plan.dump()).make_plan(model()), message.c_str(), UsageError);
  };
  check({{"op", 39}, {"name", "a"}},
        "mine.json: plan.placements[0]: op 39 is not in the model, which has 39 ops; it is the plan of another model");
  check({{"op", 1}, {"name", "h.0/aten::add"}},
        "mine.json: plan.placements[0]: op 1 is h.0/aten::add here and layers.0.n1/aten::rms_norm in the model; it is "
        "the plan of another model");
  check({{"op", 1}, {"name", "layers.0.n1/aten::rms_norm"}, {"outputs", {"keep", "keep"}}},
        "mine.json: plan.placements[0]: op 1 has 1 outputs, not 2");
}

TEST_CASE("a plan file shows without the model whether it uses the disk") {
  CHECK(rules(R"({"op": "linear", "outputs": "disk"})").uses_disk());
  CHECK(rules(R"({"op": "linear", "saved": "disk"})").uses_disk());
  CHECK(file(R"({"version": 1, "strategy": "offload:stream,tier=disk"})").uses_disk());
  CHECK(file(R"({"version": 1, "placements": [{"op": 0, "outputs": ["disk"]}]})").uses_disk());
  CHECK_FALSE(rules(R"({"op": "linear", "outputs": "host"})").uses_disk());
}

TEST_CASE("an error in a plan file names the field") {
  CHECK_THROWS_WITH_AS(HandWrittenPlanFile("no/such.json"), "--plan: no such file: no/such.json", UsageError);
  check_refused("{\n\"version\": 1,\n}", "mine.json: is not JSON: line 3");
  check_refused("", "mine.json: is not JSON: line 1");
  check_refused("[]", "mine.json: plan must be an object, not []");
  check_refused("{}", "mine.json: plan.version is missing");
  check_refused(R"({"version": 2})", "mine.json: plan.version must be an integer from 1 to 1, not 2");
  check_refused(R"({"version": 1, "rule": []})",
                "mine.json: unknown field of plan 'rule'; did you mean 'rules'? Known: version, name, placements, "
                "strategy, rules, transfer, saved_min_bytes");
  check_refused(R"({"version": 1, "strategy": "chekpoint:full"})",
                "mine.json: plan.strategy: unknown strategy 'chekpoint:full'; did you mean 'checkpoint:full'? Known: "
                "none, checkpoint:full, checkpoint:every=n, checkpoint:op, checkpoint:cheap, offload:sync, "
                "offload:stream, offload:group, states=host, checkpoint:hf-offload, checkpoint:axolotl-hidden, "
                "checkpoint:deepspeed-cpu, "
                "checkpoint:titan-full, checkpoint:titan-selective, checkpoint:megatron-uniform, "
                "checkpoint:megatron-block, offload:torchtune, offload:trl, offload:swift");
  check_refused(
      R"({"version": 1, "transfer": {"stash": 1}})",
      "mine.json: unknown field of plan.transfer 'stash'. Known: pinned, side_stream, min_bytes, stash_bytes, "
      "prefetch_bytes, schedule, groups_in_flight, prefetch_blocks, habits");
  check_refused(R"({"version": 1, "placements": [], "rules": []})",
                "mine.json: unknown field of plan 'rules'. Known: version, strategy, saved_min_bytes, nested, "
                "transfer, placements, states");
}

TEST_CASE("the name of a plan must be one line and not a strategy's name") {
  check_refused(R"({"version": 1, "name": "none"})",
                "mine.json: plan.name: 'none' is a strategy's; give the plan another name");
  check_refused(R"({"version": 1, "name": "checkpoint:cheap+offload:sync"})",
                "mine.json: plan.name: 'checkpoint:cheap+offload:sync' is a strategy's; give the plan another name");
  check_refused(R"({"version": 1, "name": " "})", "mine.json: plan.name must be a line of text");
  for (const char* end : {"\\n", "\\r", "\\u009b", "\\u2028", "\\u202e"})
    check_refused(R"({"version": 1, "name": "a)" + std::string(end) + R"(b"})",
                  "mine.json: plan.name must be a line of text");
}

TEST_CASE("an error in a rule names its number and field") {
  check_rule_refused(R"({"outputs": "host"})",
                     "mine.json: plan.rules[1] selects nothing: give it blocks, region, op or inputs_of");
  check_rule_refused(R"({"op": "linear"})", "mine.json: plan.rules[1] places nothing: give it outputs or saved");
  check_rule_refused(
      R"({"op": "linear", "outputs": "hots"})",
      "mine.json: plan.rules[1].outputs: unknown place 'hots'; did you mean 'host'? Known: keep, recompute, "
      "host, disk");
  check_rule_refused(
      R"({"blocks": "3-1", "saved": "host"})",
      "mine.json: plan.rules[1].blocks: '3-1' names no blocks; write numbers and ranges with : between, as "
      "0-9:12:20- (to the last), or all");
  check_rule_refused(R"({"opp": "linear", "outputs": "host"})",
                     "mine.json: unknown field of plan.rules[1] 'opp'; did you mean 'op'? Known: blocks, region, op, "
                     "inputs_of, outputs, saved");
  check_rule_refused(
      R"({"inputs_of": "a", "saved": "host"})",
      "mine.json: plan.rules[1].saved is for ops, inputs_of selects activations: give each a rule of its own");
}

TEST_CASE("a rule that selects nothing is refused with the nearest name") {
  check_selects_nothing(
      R"({"region": "layers.*.mpl", "outputs": "host"})",
      "mine.json: plan.rules[0].region: no op is in 'layers.*.mpl'; did you mean 'layers.*.mlp'? Known: "
      "layers, layers.*, layers.*.attn, layers.*.attn.wk, layers.*.attn.wo, layers.*.attn.wq, "
      "layers.*.attn.wv, layers.*.mlp, layers.*.mlp.w1, layers.*.mlp.w2, layers.*.mlp.w3, "
      "layers.*.n1, ...");
  check_selects_nothing(R"({"region": "layers.*.mlp", "op": "liner", "outputs": "host"})",
                        "mine.json: plan.rules[0].op: what the rule selects has no op 'liner'; did you mean 'linear'? "
                        "Known: cheap, linear, matmul, mul, silu");
  check_selects_nothing(R"({"blocks": "2", "outputs": "host"})",
                        "mine.json: plan.rules[0].blocks: the model has no block 2; it has 0 to 1");
  check_selects_nothing(
      R"({"inputs_of": "layers.0.n3", "outputs": "host"})",
      "mine.json: plan.rules[0].inputs_of: no op is in 'layers.0.n3'; did you mean 'layers.*.n1'? Known: "
      "layers, layers.*, layers.*.attn, layers.*.attn.wk, layers.*.attn.wo, layers.*.attn.wq, "
      "layers.*.attn.wv, layers.*.mlp, layers.*.mlp.w1, layers.*.mlp.w2, layers.*.mlp.w3, "
      "layers.*.n1, ...");
  check_selects_nothing(R"({"inputs_of": "layers.0", "blocks": "1", "outputs": "host"})",
                        "mine.json: plan.rules[0].inputs_of: no match is in the rule's blocks");
  const HandWrittenPlanFile strategy = file(R"({"version": 1, "strategy": "checkpoint:every=3"})");
  CHECK_THROWS_WITH_AS(strategy.make_plan(model()),
                       "mine.json: plan.strategy: checkpoint:every=3: n must be at most the number of blocks, 2",
                       UsageError);
}

TEST_CASE("a duplicate key and too deep nesting are refused in a plan file") {
  check_refused(R"({"version": 1, "strategy": "none", "strategy": "checkpoint:full"})",
                "mine.json: 'strategy' is there twice");
  const std::string open(60'000, '['), close(60'000, ']');
  check_refused("{\"version\":" + open + close + "}", "mine.json: it is nested deeper than 64 levels");
}

}  // namespace memtune::plan_file_test
