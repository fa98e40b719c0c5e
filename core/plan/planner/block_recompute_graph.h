// The memories of one block as a decision problem: what it costs to keep each, and which ops recompute it from which
// others. Numbers are local to the block, so that blocks of the same structure compare equal.
//
// Memories of other blocks that this one reads are included. If backward needs such a memory anyway, it costs nothing.
// Otherwise it would be kept for a recomputation here: it costs its bytes, divided by the number of blocks that read
// it. If no other block reads it, as with the input of a block, this one may offload it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/rules/op_memory_access_graph.h"

namespace memtune::planner {

struct BlockMemoryKeepOrRecomputeNode {
  int number = 0;                 // index into OpMemoryAccessGraph::memories()
  int64_t bytes = 0;              // cost of keeping it
  int64_t offloadable_bytes = 0;  // part that can be offloaded; autocast copies of weights cannot
  bool wanted = false;            // backward needs it
  bool can_recompute = false;     // by `reruns`, from `inputs`
  std::vector<int> inputs = {};   // memories
  std::vector<int> reruns = {};   // ops
  int first_user = 0;             // op whose backward may need it last
  int last_user = 0;              // op whose backward needs it first
};

struct BlockOpNameAndTime {
  std::string name;
  double ms = 0;
};

struct BlockRecomputeGraph {
  std::vector<BlockMemoryKeepOrRecomputeNode> memories;
  std::vector<BlockOpNameAndTime> ops;  // in order; then casts, which replace the op that saved an autocast copy

  bool has_same_structure(const BlockRecomputeGraph& other) const;  // in all but numbers and ms
};

// One graph per block, in order, with one before them and one after them for ops outside of blocks. `facts` must be
// measured. Private tensors smaller than `saved_min_bytes` always stay.
std::vector<BlockRecomputeGraph> block_graphs(const plan::ProgramFacts& facts, const plan::OpMemoryAccessGraph& graph,
                                              const plan::RecordedStepCosts& costs, int64_t saved_min_bytes);

}  // namespace memtune::planner
