// Finds the batch and the plan that give the most samples per second within a budget:
//
//   record none at the first batch ──> record none at up to four times that batch ──> predict all batches
//        └─ out of memory: record checkpoint:full instead                                 |
//   run the best three batches, each with its best plan <─────────────────────────────────┘
//        |  └── its measured peak exceeds the budget ──> run once more, with a smaller plan
//        └── the best is the largest (smallest) that ran ──> run the next one ──> ... until there is no gain
//
// checkpoint:full runs next to each plan if it fits, so that gradients can be compared. The notes name the batches that
// were not run.
#pragma once

#include "core/sweep/proposals/best_plan_by_batch_predictor.h"
#include "core/sweep/proposals/trial_proposer.h"

namespace memtune::sweep {

// The batch to record first: the second smallest of more than two. Batch 1 is avoided because some copies become views
// there, so that its costs are not representative.
int64_t first_recorded(const GlobalBatchOrAccumulationSteps& size);

// `disk`: a scratch folder is set, so plans may offload to disk.
TrialProposerFactory propose_batches(const planner::PlanMemoryBudgets& limits,
                                     const GlobalBatchOrAccumulationSteps& size, bool disk);

}  // namespace memtune::sweep
