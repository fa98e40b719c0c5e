// Converts costs of a step with recomputation into those of a step that keeps everything. Plans are made from these.
#pragma once

#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::planner {

// Memory: unmodelled memory stays as recorded, and all values are kept. Time: the measured step minus its
// recomputation. `rerun_ratio` becomes the time of a recomputation divided by that of the forward. Costs recorded with
// everything kept are returned unchanged. If parameters or optimizer states were offloaded, compute is scaled so that
// the recorded step is predicted as measured. `facts`: of the recorded program, whose ops the plan of the costs names.
plan::RecordedStepCosts costs_without_recompute(const plan::ProgramFacts& facts, plan::RecordedStepCosts costs);

}  // namespace memtune::planner
