// Prints a plan per block, as a text table.
#pragma once

#include <string>

#include "core/plan/rules/plan_summary.h"

namespace memtune::report {

// Only columns of places that the plan uses.
std::string summary_table(const plan::PlanSummary& summary);

}  // namespace memtune::report
