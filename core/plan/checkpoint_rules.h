// checkpoint:full, every and op: blocks are recomputed from their inputs and from what a list of ops made.
#pragma once

#include "core/config/strategy.h"
#include "core/plan/draft.h"

namespace memtune::plan {

// What leaves for host memory of what checkpointed blocks take from one another, under the habits of others: all that
// one block alone takes, but for the last blocks. (Several take what trainers hand over by keyword, and that stays.)
struct Handed {
  bool moves = false;
  int keep_last = 0;
};

// UsageError when the model has no blocks, not those that are named, or not the ops of the save list.
void place_checkpoint(const config::StrategyPart& part, const config::ProgramFacts& facts, const MemoryGraph& graph,
                      int64_t saved_min_bytes, Handed handed, Draft& draft);

}  // namespace memtune::plan
