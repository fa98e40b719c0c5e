// Whether a plan is for this model.
#pragma once

#include "core/config/plan.h"
#include "core/config/program_facts.h"

namespace memtune::config {

// UsageError when the model has no such op, calls it otherwise, or gives it fewer outputs: it is another model's plan.
void check_placement(const OpPlacement& placement, const ProgramFacts& facts);

}  // namespace memtune::config
