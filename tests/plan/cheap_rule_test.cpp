// checkpoint:cheap keeps few bytes, recomputes only cheap ops, and recomputes nothing in vain. Tested by example, and
// against all choices on random programs.
#include "core/plan/rules/cheap_rule.h"

#include <doctest/doctest.h>

#include <random>

#include "core/plan/rules/op_class.h"
#include "tests/plan/program.h"

namespace memtune::cheap_rule_test {

using namespace memtune;
using namespace memtune::plan;
using namespace memtune::test;

namespace {

constexpr int64_t kSavedMin = 1 << 20;

// Returns the bytes that the device holds for backward.
int64_t held(const OpMemoryAccessGraph& graph, const ActivationPlacementDraft& draft) {
  const std::vector<bool> needed = needed_in_backward(graph, draft);
  int64_t bytes = 0;
  for (size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && draft.place(graph.memories()[i]) == TensorPlacement::keep) bytes += graph.memories()[i].bytes;
  return bytes;
}

int64_t held(const std::string& spec, const ProgramFacts& facts) {
  return held(OpMemoryAccessGraph(facts), ActivationPlacementDraft(facts, plan_of(spec, facts)));
}

// One block with one memory per op. Some ops are expensive to recompute, some memories are saved.
ProgramFacts random_program(std::mt19937& random) {
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  Builder builder;
  builder.facts.blocks = {{"a"}};
  std::vector<int> values = {builder.input()};
  builder.op("aten::relu", {values[0]});  // outside of the block
  values.push_back(builder.measured(draw(5), draw(1) == 0));
  builder.block = 0;
  for (int i = 0; i < 9; ++i) {
    std::vector<int> inputs = {values[draw(static_cast<int>(values.size()) - 1)]};
    if (draw(1) == 0) inputs.push_back(values[draw(static_cast<int>(values.size()) - 1)]);
    values.push_back(builder.op(draw(3) == 0 ? "aten::linear" : "aten::relu", inputs));
    builder.measured(1 + draw(5), draw(2) == 0);
  }
  return builder.facts;
}

struct Best {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  int reruns = 0;
};

int reruns(const OpMemoryAccessGraph& graph, const ActivationPlacementDraft& draft) {
  const std::vector<bool> needed = needed_in_backward(graph, draft);
  int count = 0;
  for (size_t i = 0; i < needed.size(); ++i)
    count += needed[i] && draft.place(graph.memories()[i]) == TensorPlacement::recompute;
  return count;
}

// Tries to recompute every set of cheap memories of the block.
Best try_all(const ProgramFacts& facts, const OpMemoryAccessGraph& graph) {
  std::vector<const OpOutputAllocationNode*> cheap;
  for (const OpOutputAllocationNode& memory : graph.memories())
    if (facts.ops[memory.op].block == 0 && is_cheap(facts.ops[memory.op])) cheap.push_back(&memory);
  Best best;
  for (unsigned set = 0; set < 1u << cheap.size(); ++set) {
    ActivationPlacementDraft draft(facts);
    for (size_t i = 0; i < cheap.size(); ++i)
      if (set >> i & 1) draft.fill(*cheap[i], TensorPlacement::recompute);
    const int64_t bytes = held(graph, draft);
    const int count = reruns(graph, draft);
    if (bytes < best.bytes || (bytes == best.bytes && count < best.reruns)) best = {bytes, count};
  }
  return best;
}

}  // namespace

TEST_CASE("a decoder block recomputes norms and head repeats and silu and the gate product") {
  CHECK(placed("checkpoint:cheap", decoder(2)) ==
        "1 recompute/keep, 7-8 recompute/keep, 12 recompute/keep, 15-16 recompute/keep, "
        "19 recompute/keep, 25-26 recompute/keep, 30 recompute/keep, 33-34 recompute/keep");
  const int64_t saved = held("none", decoder(2)) - held("checkpoint:cheap", decoder(2));
  CHECK(saved == 2 * (64 + 48 + 48 + 64 + 256 + 256) * kMiB);  // the small k and v stay instead of their repeats
}

TEST_CASE("blocks= selects some blocks and inputs=host offloads their inputs") {
  CHECK(placed("checkpoint:cheap,blocks=1", decoder(2)) ==
        "19 recompute/keep, 25-26 recompute/keep, 30 recompute/keep, 33-34 recompute/keep");
  CHECK(placed("checkpoint:cheap,blocks=1,inputs=host", decoder(2)) ==
        "18 host/keep, 19 recompute/keep, 25-26 recompute/keep, 30 recompute/keep, 33-34 recompute/keep");
}

TEST_CASE("no choice on random programs holds fewer bytes or as few with fewer recomputed ops") {
  std::mt19937 random(11);
  for (int i = 0; i < 400; ++i) {
    const ProgramFacts facts = random_program(random);
    const OpMemoryAccessGraph graph(facts);
    ActivationPlacementDraft draft(facts);
    place_cheap({true}, facts, graph, kSavedMin, draft);
    const Best best = try_all(facts, graph);
    CAPTURE(i);
    REQUIRE(held(graph, draft) == best.bytes);
    REQUIRE(reruns(graph, draft) == best.reruns);
  }
}

TEST_CASE("a value that backward does not need is not recomputed because its inputs would stay") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int dear = builder.op("aten::linear", {builder.input()});
  builder.measured(8, false);
  const int unsaved = builder.op("aten::relu", {dear});
  builder.measured(8, false);
  const int between = builder.op("aten::linear", {unsaved});
  builder.measured(2, false);
  builder.op("aten::relu", {between});
  builder.measured(8, true);
  CHECK(placed("checkpoint:cheap", builder.facts) == "3 recompute/keep");
}

TEST_CASE("a value that leaves its block is kept so that recomputation ends at the block") {
  Builder builder;
  builder.facts.blocks = {{"a"}, {"b"}};
  int hidden = builder.op("aten::embedding", {builder.input()});
  builder.measured(1, true);
  for (builder.block = 0; builder.block < 2; ++builder.block) {
    hidden = builder.op("aten::relu", {hidden});
    builder.measured(8, true);
    hidden = builder.op("aten::tanh", {hidden});
    builder.measured(8, true);
  }
  CHECK(placed("checkpoint:cheap", builder.facts) == "1 recompute/keep, 3-4 recompute/keep");
}

TEST_CASE("random draws and lookups and sorts are not recomputed") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int in = builder.op("aten::linear", {builder.input()});
  builder.measured(4, true);
  builder.op("aten::dropout", {in});
  builder.measured(8, true, 0, 4 * kMiB);
  builder.last().random = true;
  for (const char* name : {"aten::embedding", "aten::topk"}) {
    builder.op(name, {in});
    builder.measured(8, true);
  }
  CHECK(placed("checkpoint:cheap", builder.facts) == "");
}

TEST_CASE("matrix products with other names are not recomputed either") {
  for (const char* name : {"aten::conv_transpose2d", "aten::cdist", "aten::mv", "aten::_grouped_mm",
                           "aten::_scaled_dot_product_flash_attention", "mylib::fused_block"}) {
    CAPTURE(name);
    Builder builder;
    builder.facts.blocks = {{"a"}};
    builder.block = 0;
    const int in = builder.op("aten::linear", {builder.input()});
    builder.measured(4, true);
    const int sum = builder.op("aten::add", {in});
    builder.measured(4, false);
    builder.op(name, {sum});
    builder.measured(8, true);
    CHECK(placed("checkpoint:cheap", builder.facts) == "");
  }
}

TEST_CASE("a value is recomputed with all in-place ops on it or not at all") {
  const auto program = [](const char* write) {
    Builder builder;
    builder.facts.blocks = {{"a"}};
    builder.block = 0;
    const int in = builder.op("aten::linear", {builder.input()});  // 0
    builder.measured(8, true);
    const int norm = builder.op("aten::batch_norm", {in});  // 1
    builder.measured(8, true);
    const int sum = builder.alias("aten::add_", {norm, in});  // 2
    builder.measured(0, false);
    builder.last().random = std::string(write) == "aten::dropout_";
    builder.alias(write, {sum});  // 3
    builder.measured(0, false);
    return placed("checkpoint:cheap", builder.facts);
  };
  CHECK(program("aten::relu_") == "1-3 recompute/keep");
  CHECK(program("aten::dropout_") == "");
  CHECK(program("aten::index_put_") == "");
}

TEST_CASE("recomputation never starts from an overwritten value") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int in = builder.op("aten::linear", {builder.input()});  // 0
  builder.measured(8, true);
  builder.op("aten::neg", {in});  // 1: reads what 2 overwrites
  builder.measured(8, true);
  builder.alias("aten::relu_", {in});  // 2
  builder.measured(0, false);
  builder.op("aten::neg", {in});  // 3: reads what stays
  builder.measured(8, true);
  CHECK(placed("checkpoint:cheap", builder.facts) == "3 recompute/keep");
}

TEST_CASE("a view that copied is recomputed like any cheap value and a real view needs no place") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int small = builder.op("aten::linear", {builder.input()});
  builder.measured(2, false);
  const int view = builder.alias("aten::view", {small});
  builder.measured(0, false);
  const int copied = builder.alias("aten::reshape", {view});
  builder.measured(8, true);
  builder.op("aten::linear", {copied});
  builder.measured(8, false);
  CHECK(placed("checkpoint:cheap", builder.facts) == "2 recompute/keep");
}

TEST_CASE("casts of matmul inputs and private values of cheap ops are recomputed and attention's kept") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int in = builder.op("aten::linear", {builder.input()});  // 0
  builder.measured(8 * kMiB, true);
  const int matmul = builder.op("aten::linear", {in});  // 1
  builder.measured(8 * kMiB, true, 1, 4 * kMiB);
  const int norm = builder.op("aten::layer_norm", {matmul});  // 2
  builder.measured(8 * kMiB, true, 0, 4 * kMiB);
  builder.op("aten::scaled_dot_product_attention", {norm});  // 3
  builder.measured(8 * kMiB, true, 1, 4 * kMiB);
  builder.op("aten::layer_norm", {matmul});  // 4: small private values
  builder.measured(8 * kMiB, false, 0, kMiB / 2);
  CHECK(placed("checkpoint:cheap", builder.facts) == "1 keep/recompute, 2 recompute/recompute");
}

TEST_CASE("a cast is kept if its recomputation would keep a larger input") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int in = builder.op("aten::linear", {builder.input()});
  builder.measured(8 * kMiB, false);
  builder.op("aten::linear", {in});
  builder.measured(8 * kMiB, false, 1, 4 * kMiB);
  CHECK(placed("checkpoint:cheap", builder.facts) == "");
}

TEST_CASE("a value that an earlier part offloaded is a root without cost") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int large = builder.op("aten::linear", {builder.input()});
  builder.measured(9, false);
  builder.op("aten::relu", {large});
  builder.measured(8, true);
  const OpMemoryAccessGraph graph(builder.facts);
  ActivationPlacementDraft draft(builder.facts);
  draft.set(0, 0, TensorPlacement::host);
  place_cheap({true}, builder.facts, graph, kSavedMin, draft);
  CHECK(draft.place(1, 0) == TensorPlacement::recompute);
}

TEST_CASE("without a measured forward every cheap op is recomputed unless its value leaves the block") {
  CHECK(placed("checkpoint:cheap", three_blocks()) ==
        "2 recompute/recompute, 6 keep/recompute, 8 recompute/recompute, 12 keep/recompute, 14 recompute/recompute, "
        "18 keep/recompute");
}

}  // namespace memtune::cheap_rule_test
