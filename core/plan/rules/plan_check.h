// Checks that a plan belongs to this model.
#pragma once

#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"

namespace memtune::plan {

// Throws UsageError if the model lacks the op, names it differently or has fewer outputs. The plan is then another
// model's.
void check_placement(const OneOpActivationPlacements& placement, const ProgramFacts& facts);

}  // namespace memtune::plan
