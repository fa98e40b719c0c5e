// The options of a block: an option describes what its plan does, and no option is useless.
#include "core/plan/planner/block_options.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/plan/rules/activation_placement_draft.h"
#include "core/record/trace/private_save.h"
#include "tests/planner/costs.h"

namespace memtune::block_options_test {

using namespace memtune;
using namespace memtune::planner;
using namespace memtune::test;
using plan::OpMemoryAccessGraph;
using plan::OpOutputAllocationNode;
using plan::RecordedStepCosts;

namespace {

struct Decoder {
  ProgramFacts facts = decoder(3);
  OpMemoryAccessGraph graph{facts};
  RecordedStepCosts costs = costs_of(facts, decoder_ms(facts));

  std::vector<BlockOptionSet> options(const BlockOptionGenerationSettings& limits = {}) const {
    return block_options(facts, graph, costs, limits);
  }
  Plan plan(const BlockOption& option) const {
    return plan_of_options(std::vector{option}, facts, graph, BlockOptionGenerationSettings(), "one");
  }
};

// Returns what `plan` does with the first block, computed from the plan alone.
BlockOption as_planned(const Decoder& decoder, const Plan& plan) {
  const plan::ActivationPlacementDraft draft(decoder.facts, plan);
  const std::vector<bool> needed = plan::needed_in_backward(decoder.graph, draft);
  BlockOption found;
  for (size_t i = 0; i < needed.size(); ++i) {
    const OpOutputAllocationNode& memory = decoder.graph.memories()[i];
    if (decoder.facts.ops[memory.op].block != 0 || !needed[i]) continue;
    const TensorPlacement place = draft.place(memory);
    if (place == TensorPlacement::keep) found.resident_bytes += memory.bytes;
    if (place == TensorPlacement::host) found.offloaded_bytes += memory.bytes;
    if (place == TensorPlacement::recompute) found.recompute_ms += decoder.costs.runs[memory.op].ms;
  }
  return found;
}

bool beats(const BlockOption& a, const BlockOption& b) {
  return a.resident_bytes <= b.resident_bytes && a.offloaded_bytes <= b.offloaded_bytes &&
         a.recompute_ms <= b.recompute_ms;
}

}  // namespace

TEST_CASE("the plan of an option keeps and offloads and recomputes what the option says") {
  const Decoder decoder;
  const BlockOptionSet block = decoder.options()[1];
  REQUIRE(block.options.size() == 12);
  for (const BlockOption& option : block.options) {
    const BlockOption found = as_planned(decoder, decoder.plan(option));
    CAPTURE(option.resident_bytes / kMiB);
    CHECK(found.resident_bytes == option.resident_bytes);
    CHECK(found.offloaded_bytes == option.offloaded_bytes);
    CHECK(found.recompute_ms == doctest::Approx(option.recompute_ms));
  }
}

TEST_CASE("no option is dominated and the first keeps everything and the last keeps the least") {
  const Decoder decoder;
  for (const int most : {2, 5, 12, 40}) {
    const std::vector<BlockOption> options = decoder.options({.most = most})[1].options;
    CHECK(options.size() <= static_cast<size_t>(most));
    CHECK(options.front().places.empty());
    CHECK(options.front().resident_bytes == 1536 * kMiB);
    CHECK(options.back().resident_bytes == 0);
    const auto moves_nothing = [](const BlockOption& o) {
      return o.offloaded_bytes == 0 && o.resident_bytes == 64 * kMiB;
    };
    CHECK(std::ranges::any_of(options, moves_nothing) == (most > 2));
    for (const BlockOption& a : options)
      for (const BlockOption& b : options) CHECK((&a == &b || !beats(a, b)));
  }
}

TEST_CASE("a tensor that another block reads is never recomputed but may be offloaded") {
  const Decoder decoder;
  int moves = 0;
  const BlockOptionSet block = decoder.options()[1];
  for (const BlockOption& option : block.options)
    for (const ActivationStoragePlacement& placed : option.places) {
      const OpOutputAllocationNode& memory = decoder.graph.memories()[placed.memory];
      CHECK(decoder.facts.ops[memory.op].block == 0);
      CHECK_FALSE((memory.crosses && placed.place == TensorPlacement::recompute));
      moves += memory.crosses;
    }
  CHECK(moves > 0);
}

TEST_CASE("a tensor that only a recomputed op reads is recomputed too") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int root = builder.op("c10d::all_reduce", {builder.input()});
  builder.last().op_class = plan::OpClass::collective;
  builder.measured(1, true);
  builder.op("aten::relu", {root});
  builder.measured(50, true);
  const int between = builder.op("aten::relu", {root});
  builder.measured(100, false);
  builder.op("aten::relu", {between});
  builder.measured(20, true);
  const OpMemoryAccessGraph graph(builder.facts);
  const auto options = block_options(builder.facts, graph, costs_of(builder.facts, {1, 1, 1, 1}), {})[1].options;
  CHECK(options.back().recompute_ms == 3);
}

TEST_CASE("a cast that a matmul saved is recomputed at the cost of one pass over memory") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  const int in = builder.op("aten::relu", {builder.input()});
  builder.measured(8 * kMiB, true);
  builder.op("aten::linear", {in});
  builder.measured(8 * kMiB, false, 1, 4 * kMiB);
  RecordedStepCosts costs = costs_of(builder.facts, {8, 100});
  costs.values = {{.run = 0, .output = 0, .bytes = 8 * kMiB},
                  {.run = 1, .output = kPrivateSave, .bytes = 3 * kMiB, .cast_of = 0},
                  {.run = 1, .output = kPrivateSave, .bytes = 1 * kMiB, .cast_of = RecordedStepCosts::kCastOfOther}};
  costs.runs[0].makes = {0};
  const OpMemoryAccessGraph graph(builder.facts);
  const auto options = block_options(builder.facts, graph, costs, {})[1].options;
  const auto cast_again = std::ranges::find_if(options, [](const BlockOption& o) { return o.recompute_ms > 0; });
  REQUIRE(cast_again != options.end());
  CHECK(cast_again->recompute_ms <= 12 + 8);
  const auto moved = std::ranges::max_element(options, {}, &BlockOption::offloaded_bytes);
  CHECK(moved->offloaded_bytes == 11 * kMiB);  // the weight's cast is never offloaded
}

TEST_CASE("blocks of the same structure have the same options with averaged times") {
  Decoder decoder;
  for (auto& run : decoder.costs.runs)
    if (decoder.facts.ops[run.op].block == 1) run.ms *= 4;  // as noise may do
  const std::vector<BlockOptionSet> blocks = decoder.options();
  REQUIRE(blocks.size() == 5);
  CHECK(blocks[1].structure == blocks[3].structure);
  CHECK(blocks[0].structure != blocks[1].structure);
  for (size_t i = 0; i < blocks[1].options.size(); ++i) {
    CHECK(blocks[1].options[i].recompute_ms == blocks[2].options[i].recompute_ms);
    for (const ActivationStoragePlacement& placed : blocks[2].options[i].places)
      CHECK(decoder.facts.ops[decoder.graph.memories()[placed.memory].op].block == 1);
  }
  CHECK(blocks[1].options.back().recompute_ms ==
        doctest::Approx(2 * Decoder().options()[1].options.back().recompute_ms));
}

// As the input of a checkpointed block: its own backward has no use for it.
TEST_CASE("what only the recomputation of one other block reads may be offloaded there") {
  for (const bool is_shared : {false, true}) {
    Builder builder;
    builder.facts.blocks = {{"a"}, {"b"}, {"c"}};
    builder.block = 0;
    const int input = builder.op("aten::add", {builder.input()});
    builder.measured(16 * kMiB, false);
    for (const int block : {1, 2}) {
      builder.block = block;
      builder.op("aten::relu", {block == 1 || is_shared ? input : builder.input()});
      builder.measured(64 * kMiB, true);
    }
    const OpMemoryAccessGraph graph(builder.facts);
    const auto options = block_options(builder.facts, graph, costs_of(builder.facts, {1, 1, 1}), {})[2].options;
    const auto offloads_input = [&](const BlockOption& option) {
      return option.recompute_ms > 0 && option.resident_bytes == 0 && option.offloaded_bytes == 16 * kMiB;
    };
    CAPTURE(is_shared);
    CHECK(std::ranges::any_of(options, offloads_input) == !is_shared);
  }
}

TEST_CASE("of options that are nearly as small and offload nothing the fastest is always there") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  int in = builder.op("c10d::all_reduce", {builder.input()});
  builder.last().op_class = plan::OpClass::collective;
  builder.measured(kMiB, true);
  std::vector<double> ms = {1};
  for (int i = 0; i < 12; ++i) {
    in = builder.op("aten::relu", {in});
    builder.measured(i == 11 ? 2 * kMiB : 512 * kMiB, true);
    ms.push_back(i == 11 ? 50 : 10);
  }
  const OpMemoryAccessGraph graph(builder.facts);
  const auto options = block_options(builder.facts, graph, costs_of(builder.facts, ms), {.most = 3})[1].options;
  CHECK(std::ranges::any_of(options, [](const BlockOption& option) {
    return option.offloaded_bytes == 0 && option.resident_bytes == 3 * kMiB && option.recompute_ms == 110;
  }));
}

TEST_CASE("small tensors are not offloaded unless the limits allow it") {
  Builder builder;
  builder.facts.blocks = {{"a"}};
  builder.block = 0;
  builder.op("aten::linear", {builder.input()});
  builder.measured(1000, true);
  const OpMemoryAccessGraph graph(builder.facts);
  const RecordedStepCosts costs = costs_of(builder.facts, {1});
  const auto most_moved = [&](const BlockOptionGenerationSettings& limits) {
    const auto options = block_options(builder.facts, graph, costs, limits)[1].options;
    return std::ranges::max(options, {}, &BlockOption::offloaded_bytes).offloaded_bytes;
  };
  CHECK(most_moved({}) == 0);
  CHECK(most_moved({.offload_min_bytes = 1000}) == 1000);
}

TEST_CASE("ops outside of blocks keep everything unless the limits allow more") {
  const Decoder decoder;
  const std::vector<BlockOptionSet> blocks = decoder.options();
  CHECK(blocks.front().block == -1);
  CHECK(blocks.back().block == 3);
  CHECK(blocks.back().options.size() == 1);
  CHECK(blocks.back().options[0].resident_bytes == 576 * kMiB);
  CHECK(decoder.options({.outside = true}).back().options.size() > 1);
}

}  // namespace memtune::block_options_test
