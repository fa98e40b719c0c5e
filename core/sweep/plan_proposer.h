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
#include <filesystem>
#include <optional>

#include "core/config/step_costs.h"
#include "core/planner/planner.h"
#include "core/sweep/proposer.h"

namespace memtune::sweep {

// As a step with everything kept has them (planner::kept_costs), whatever the trial's plan was; nothing where they were
// not recorded, or make no sense of that program.
std::optional<config::StepCosts> read_costs(const std::filesystem::path& trial_folder,
                                            const config::ProgramFacts& program);

// `budget_bytes` of device memory, allocated; `host_budget_bytes` 0: none. The candidates are the strategies that are
// predicted beside the plan; where neither the baseline nor checkpoint:full tells what a step costs all are tried.
// `disk`: there is a scratch folder.
MakeProposer propose_plans(const planner::PlanLimits& limits, bool disk);

}  // namespace memtune::sweep
