// Costs of a recorded step that do not depend on the batch: the step of no samples. With them, one recording is enough
// to predict other batches (costs_at_batch).
//
// Fixed are memory allocated before the step (parameters, optimizer state), values that do not depend on program
// inputs, and parameter gradients. Gradients are the part of backward's unmodelled memory that stays allocated until
// backward ends. Everything else grows with the batch, including all times except the optimizer's.
#pragma once

#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::planner {

// `costs`: of a step that kept everything (see costs_without_recompute), recorded from the program of `facts`. So is
// the result.
plan::RecordedStepCosts fixed_costs(const plan::ProgramFacts& facts, const plan::RecordedStepCosts& costs);

}  // namespace memtune::planner
