// Checks that a plan belongs to this model.
#pragma once

#include "core/config/plan.h"
#include "core/config/program_facts.h"

namespace memtune::config {

// Throws UsageError if the model lacks the op, names it differently or has fewer outputs. The plan is then another
// model's.
void check_placement(const OpPlacement& placement, const ProgramFacts& facts);

}  // namespace memtune::config
