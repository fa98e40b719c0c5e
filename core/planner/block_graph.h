// One block of a program as what there is to decide about it: its memories, what keeping each costs, and which ops make
// it again from which others. Numbers are the block's own, so that blocks of one structure compare equal.
//
// A memory of another block that this one reads is here too: saved, it is there anyway and costs nothing; else it would
// stay for a rerun here alone, and costs its bytes, shared by the blocks that read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/program_facts.h"
#include "core/config/step_costs.h"
#include "core/plan/memory_graph.h"

namespace memtune::planner {

struct BlockMemory {
  int number = 0;                // index into MemoryGraph::memories()
  int64_t bytes = 0;             // that keeping it costs
  int64_t movable_bytes = 0;     // of those; a weight that autocast cast is cast again, but never moves
  bool wanted = false;           // backward needs it
  bool can_be_remade = false;    // by `reruns`, from `inputs`
  std::vector<int> inputs = {};  // memories
  std::vector<int> reruns = {};  // ops
  int first_user = 0;            // op: the last in backward that may want it
  int last_user = 0;             // op: the first in backward
};

struct BlockOp {
  std::string name;
  double ms = 0;
};

struct BlockGraph {
  std::vector<BlockMemory> memories;
  std::vector<BlockOp> ops;  // in order, then the casts that stand in for an op where autocast made what it saved

  bool like(const BlockGraph& other) const;  // in all but numbers and ms
};

// An entry a block, in order; with one before them and one behind them for the ops that are in none. `facts` is of a
// program that was measured. Private values under `saved_min_bytes` stay in any case.
std::vector<BlockGraph> block_graphs(const config::ProgramFacts& facts, const plan::MemoryGraph& graph,
                                     const config::StepCosts& costs, int64_t saved_min_bytes);

}  // namespace memtune::planner
