// Options for one block: what stays on the device between forward and backward, what is offloaded, and what is
// recomputed. No option is worse than another in all three. The planner picks one option per block.
//
//   recomputed    exact, at every price of memory (recompute_sets.h)
//   offloaded     of the kept memories, the most expensive to recompute first, in a few steps
//
// Times are from RecordedStepCosts, averaged over blocks of the same structure, which share their options.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/rules/op_memory_access_graph.h"
#include "core/plan/strategy/plan.h"

namespace memtune::planner {

struct ActivationStoragePlacement {
  int memory = 0;  // index into OpMemoryAccessGraph::memories()
  plan::TensorPlacement place = plan::TensorPlacement::keep;
  bool operator==(const ActivationStoragePlacement&) const = default;
};

struct BlockOption {
  std::vector<ActivationStoragePlacement> places = {};  // all that are not keep
  int64_t resident_bytes = 0;                           // stay on the device
  int64_t offloaded_bytes = 0;
  int64_t disk_bytes = 0;   // part of offloaded_bytes that may spill to disk
  double recompute_ms = 0;  // each op counts once
};

struct BlockOptionGenerationSettings {
  int64_t offload_min_bytes = plan::TransferSettings().min_bytes;  // smaller memories are not offloaded
  int64_t saved_min_bytes = plan::Plan().saved_min_bytes;          // smaller private tensors always stay
  int most = 12;                                                   // options per block; at least 2
  bool disk = false;     // offloaded bytes may spill to disk: all of a block's, or none
  bool outside = false;  // ops outside of blocks get options too; else they keep everything
};

struct BlockOptionSet {
  int block = 0;      // -1: ops before and between the blocks; number of blocks: ops after them
  int structure = 0;  // blocks with the same number have the same options
  // Most resident bytes first; the first keeps everything. Options with the disk come last.
  std::vector<BlockOption> options = {};
};

// In the order of the forward, with an entry before the blocks and one after them. `facts` must be measured; `graph`
// and `costs` are of the same program.
std::vector<BlockOptionSet> block_options(const plan::ProgramFacts& facts, const plan::OpMemoryAccessGraph& graph,
                                          const plan::RecordedStepCosts& costs,
                                          const BlockOptionGenerationSettings& limits);

// Returns the plan that applies these options; what no option names is kept.
plan::Plan plan_of_options(std::span<const BlockOption> chosen, const plan::ProgramFacts& facts,
                           const plan::OpMemoryAccessGraph& graph, const BlockOptionGenerationSettings& limits,
                           std::string name);

}  // namespace memtune::planner
