// The batch, and the plan for it, that give the most samples a second under a budget:
//
//   none at the setting's batch ──> none at one up to four times as large ──> a step of any batch, on paper
//        └─ does not fit: checkpoint:full in its place                              |
//   the best three batches, each with the plan that is best for it <────────────────┘
//        |  └── its measured peak breaks the budget ──> once more, with less
//        └── the best is the largest (smallest) that ran ──> the next one ──> ... until that gains nothing
//
// Beside a plan runs checkpoint:full, where it fits: their gradients are compared. What was not run is named in the
// notes.
#pragma once

#include "core/sweep/batch_paper.h"
#include "core/sweep/proposer.h"

namespace memtune::sweep {

// The batch to be recorded first, of the settings. Of one sample copies become views: where there are larger batches it
// tells nothing of them.
int64_t first_recorded(const StepSize& size);

// `disk`: there is a scratch folder.
MakeProposer propose_batches(const planner::PlanLimits& limits, const StepSize& size, bool disk);

}  // namespace memtune::sweep
