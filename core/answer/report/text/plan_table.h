// Prints a plan per block, as a text table.
#pragma once

#include <string>

#include "core/plan/rules/plan_placement_summary.h"

namespace memtune::report {

// Only columns of places that the plan uses.
std::string summary_table(const plan::PlanPlacementSummary& summary);

}  // namespace memtune::report
