// Converts a recorded step of a sharded model to another number of ranks of the same host.
//
//   bytes on a rank ─┬─ shards of parameters, gradients and optimizer states ── x ranks here / ranks there
//                    ├─ the rest of a block that PyTorch's allocator does not split off ── simulated
//                    └─ activations, gathered units, a gradient that is reduced as a whole ── unchanged
//
// The optimizer's time scales with the shards. Gathers, reductions and copies take as long as recorded.
#pragma once

#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::planner {

// `ranks` at least 2. Throws UsageError for fewer, for a step that is not sharded, and for one that an earlier memtune
// recorded without the bytes of shards.
plan::RecordedStepCosts costs_on_ranks(const plan::RecordedStepCosts& costs, int ranks);

}  // namespace memtune::planner
