// checkpoint:full, every and op: blocks are recomputed from their inputs and from what a list of ops made.
#pragma once

#include "core/config/strategy.h"
#include "core/plan/draft.h"

namespace memtune::plan {

// UsageError when the model has no blocks, not those that are named, or not the ops of the save list.
void place_checkpoint(const config::StrategyPart& part, const config::ProgramFacts& facts, const MemoryGraph& graph,
                      int64_t saved_min_bytes, Draft& draft);

}  // namespace memtune::plan
