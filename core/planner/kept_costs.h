// Costs of a step that made values again, as a step with every value kept would have given them: what plans are made
// from.
#pragma once

#include "core/config/program_facts.h"
#include "core/config/step_costs.h"

namespace memtune::planner {

// Memory: what the recorded step had beside its values stays, the values are where they are when all are kept. Time:
// the measured step's less what it made again; how long that took for each millisecond of the forward is `rerun_ratio`.
// Costs that were recorded with everything kept come back as they are. `facts` is of the program that they were
// recorded of, and the plan names its ops.
config::StepCosts kept_costs(const config::ProgramFacts& facts, config::StepCosts costs);

}  // namespace memtune::planner
