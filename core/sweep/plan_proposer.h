// A sweep under a budget that finds its own plan. Of each setting:
//
//   the baseline ── keeps the budget ──> done: nothing has to be done
//        |  └── does not fit at all ──> checkpoint:full ── neither ──> all strategies
//        |                                     |
//        └── costs of its step <───────────────┘
//                  └──> the best plan on paper, the strategies that come near it, the floor ──> run
//                                    ^                                                            |
//                                    └──── what was measured corrects the paper, twice at most ───┘
//
// Strategies that cannot win on paper are not run, and named.
#pragma once

#include <cstdint>

#include "core/planner/planner.h"
#include "core/sweep/proposer.h"

namespace memtune::sweep {

// `budget_bytes` of device memory, allocated; `host_budget_bytes` 0: none. The candidates are the strategies that are
// predicted beside the plan; where neither the baseline nor checkpoint:full tells what a step costs all are tried.
// `disk`: there is a scratch folder.
MakeProposer propose_plans(const planner::PlanLimits& limits, bool disk);

}  // namespace memtune::sweep
