#include "core/plan/planner/block_options.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/plan/planner/block_recompute_graph.h"
#include "core/plan/planner/option_selection.h"
#include "core/plan/planner/recompute_sets.h"
#include "core/plan/rules/activation_placement_draft.h"

namespace memtune::planner {
namespace {

using plan::OpMemoryAccessGraph;
using plan::ProgramFacts;
using plan::TensorPlacement;

constexpr int kMoveSteps = 5;  // from nothing offloaded to everything

// Makes the options of one block; memories have the numbers of its BlockRecomputeGraph.
class OptionMaker {
 public:
  OptionMaker(const BlockRecomputeGraph& block, const BlockOptionGenerationSettings& limits)
      : block_(block), limits_(limits), sets_(recompute_sets(block)), dearness_(block.memories.size()) {
    for (size_t set = 0; set < sets_.size(); ++set)
      for (size_t memory = 0; memory < dearness_.size(); ++memory)
        if (sets_[set].kept[memory]) dearness_[memory] = static_cast<int>(set);
  }

  std::vector<BlockOption> make() {
    std::vector<BlockOption> options;
    for (const BlockRecomputeOption& set : sets_) add_options(set, options);
    return select_options(std::move(options), limits_.most);
  }

 private:
  // Memories kept at the highest price of memory come first: they cost most to recompute.
  std::vector<int> movable(const BlockRecomputeOption& set) const {
    std::vector<int> memories;
    for (int memory = 0; memory < static_cast<int>(dearness_.size()); ++memory)
      if (set.kept[memory] && moves(memory)) memories.push_back(memory);
    const auto rank = [&](int memory) { return std::tuple(-dearness_[memory], -bytes(memory), memory); };
    std::sort(memories.begin(), memories.end(), [&](int a, int b) { return rank(a) < rank(b); });
    return memories;
  }

  int64_t bytes(int memory) const { return block_.memories[memory].offloadable_bytes; }
  bool moves(int memory) const { return bytes(memory) > 0 && bytes(memory) >= limits_.offload_min_bytes; }

  void add_options(const BlockRecomputeOption& set, std::vector<BlockOption>& options) const {
    const std::vector<int> movable = this->movable(set);
    int64_t all = 0;
    for (const int memory : movable) all += bytes(memory);
    BlockOption option = nothing_moved(set);
    options.push_back(option);
    int step = 1;
    for (const int memory : movable) {
      option.places.push_back({memory, TensorPlacement::host});
      option.resident_bytes -= bytes(memory);
      option.offloaded_bytes += bytes(memory);
      if (option.offloaded_bytes * kMoveSteps < step * all) continue;
      options.push_back(option);
      step = static_cast<int>(option.offloaded_bytes * kMoveSteps / all) + 1;
    }
  }

  BlockOption nothing_moved(const BlockRecomputeOption& set) const {
    BlockOption option{.resident_bytes = set.bytes, .recompute_ms = set.ms};
    for (int memory = 0; memory < static_cast<int>(set.recomputed.size()); ++memory)
      if (set.recomputed[memory]) option.places.push_back({memory, TensorPlacement::recompute});
    return option;
  }

  const BlockRecomputeGraph& block_;
  const BlockOptionGenerationSettings& limits_;
  std::vector<BlockRecomputeOption> sets_;  // most bytes first
  std::vector<int> dearness_;               // by memory: the last of sets_ that keeps it
};

// Keeps everything, for ops that get no other option.
BlockOption nothing_placed(const BlockRecomputeGraph& block) {
  BlockOption option;
  for (const BlockMemoryKeepOrRecomputeNode& memory : block.memories)
    option.resident_bytes += memory.wanted ? memory.bytes : 0;
  return option;
}

// Structure of each block; equal numbers mean equal structure.
std::vector<int> structures(const std::vector<BlockRecomputeGraph>& blocks) {
  std::vector<int> of_block, first;
  for (int block = 0; block < static_cast<int>(blocks.size()); ++block) {
    const auto known =
        std::find_if(first.begin(), first.end(), [&](int b) { return blocks[b].has_same_structure(blocks[block]); });
    of_block.push_back(static_cast<int>(known - first.begin()));
    if (known == first.end()) first.push_back(block);
  }
  return of_block;
}

// The first block of a structure, with the mean ms of all its blocks.
BlockRecomputeGraph representative(const std::vector<BlockRecomputeGraph>& blocks, const std::vector<int>& structure,
                                   int number) {
  BlockRecomputeGraph mean;
  double count = 0;
  for (size_t block = 0; block < blocks.size(); ++block) {
    if (structure[block] != number) continue;
    if (count++ == 0)
      mean = blocks[block];
    else
      for (size_t op = 0; op < mean.ops.size(); ++op) mean.ops[op].ms += blocks[block].ops[op].ms;
  }
  for (BlockOpNameAndTime& op : mean.ops) op.ms /= count;
  return mean;
}

// Adds a copy of each option that offloads, with the disk instead of host memory.
void add_disk_options(std::vector<BlockOption>& options) {
  const size_t count = options.size();
  for (size_t i = 0; i < count; ++i) {
    if (options[i].offloaded_bytes == 0) continue;
    BlockOption& option = options.emplace_back(BlockOption(options[i]));
    option.disk_bytes = option.offloaded_bytes;
    for (ActivationStoragePlacement& placed : option.places)
      if (placed.place == TensorPlacement::host) placed.place = TensorPlacement::disk;
  }
}

std::vector<BlockOption> translated(std::vector<BlockOption> options, const BlockRecomputeGraph& block) {
  for (BlockOption& option : options)
    for (ActivationStoragePlacement& placed : option.places) placed.memory = block.memories[placed.memory].number;
  return options;
}

}  // namespace

std::vector<BlockOptionSet> block_options(const ProgramFacts& facts, const OpMemoryAccessGraph& graph,
                                          const plan::RecordedStepCosts& costs,
                                          const BlockOptionGenerationSettings& limits) {
  const std::vector<BlockRecomputeGraph> blocks = block_graphs(facts, graph, costs, limits.saved_min_bytes);
  const std::vector<int> structure = structures(blocks);
  std::map<int, std::vector<BlockOption>> options;  // by structure
  std::vector<BlockOptionSet> choices;
  for (int i = 0; i < static_cast<int>(blocks.size()); ++i) {
    BlockOptionSet& choice = choices.emplace_back(BlockOptionSet{.block = i - 1, .structure = structure[i]});
    const bool outside = i == 0 || i + 1 == static_cast<int>(blocks.size());
    if (outside && !limits.outside) {
      choice.options = {nothing_placed(blocks[i])};
      continue;
    }
    const auto [known, is_new] = options.try_emplace(structure[i]);
    if (is_new) {
      known->second = OptionMaker(representative(blocks, structure, structure[i]), limits).make();
      if (limits.disk) add_disk_options(known->second);
    }
    choice.options = translated(known->second, blocks[i]);
  }
  return choices;
}

plan::Plan plan_of_options(std::span<const BlockOption> chosen, const ProgramFacts& facts,
                           const OpMemoryAccessGraph& graph, const BlockOptionGenerationSettings& limits,
                           std::string name) {
  plan::ActivationPlacementDraft draft(facts);
  for (const BlockOption& option : chosen)
    for (const ActivationStoragePlacement& placed : option.places)
      draft.fill(graph.memories()[placed.memory], placed.place);
  plan::Plan plan;
  plan.strategy = std::move(name);
  plan.placements = draft.placements();
  plan.saved_min_bytes = limits.saved_min_bytes;
  plan.transfer.min_bytes = limits.offload_min_bytes;
  return plan;
}

}  // namespace memtune::planner
