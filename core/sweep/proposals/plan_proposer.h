// Proposes trials under a budget and computes a plan for it. For each setting:
//
//   the baseline ── fits the budget ──> no plan is needed; the strategy of the user's config runs
//        |  └── out of memory ──> checkpoint:full ── too ──> the first of Candidates::fallback ── too ──> all
//        |                              |                                   |                     strategies
//        └── costs of its step <────────┴───────────────────────────────────┘
//                  └──> the best predicted plan (or the smallest), the best predicted strategies ──> run
//                                    ^                                                            |
//                                    └──── measurements correct the prediction, twice at most ────┘
//
// Strategies that cannot win by prediction are not run; the notes name them.
#pragma once

#include <cstdint>
#include <string>

#include "core/plan/planner/planner.h"
#include "core/sweep/proposals/trial_proposer.h"

namespace memtune::sweep {

// `limits`: budgets of peak allocated device memory and of host memory; `host_budget_bytes` 0: none. The candidates are
// the strategies that are compared with the plan. If none of the three yields step costs, all of them and the fallback
// run. `disk`: a scratch folder is set, so plans may offload to disk. `own`: the strategy of the user's config,
// which always runs; "": none.
TrialProposerFactory propose_plans(const planner::PlanMemoryBudgets& limits, bool disk, const std::string& own = "");

}  // namespace memtune::sweep
