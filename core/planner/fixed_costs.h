// What of a recorded step is there whatever its batch: the step of no samples, by which one recording tells of other
// batches (costs_at_batch).
//
// Fixed are what lies there before the step (parameters, the optimizer's), values that no input of the program goes
// into, and gradients of parameters: of what backward has beside its values, as much as is there from then on to its
// end. Everything else grows with the batch, all times but the optimizer's too.
#pragma once

#include "core/config/program_facts.h"
#include "core/config/step_costs.h"

namespace memtune::planner {

// `costs` are of a step that kept everything (see kept_costs), recorded of the program of `facts`; so is the result.
config::StepCosts fixed_costs(const config::ProgramFacts& facts, const config::StepCosts& costs);

}  // namespace memtune::planner
