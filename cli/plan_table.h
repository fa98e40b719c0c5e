// What a plan does, block by block, as lines of a terminal.
#pragma once

#include <string>

#include "core/plan/plan_summary.h"

namespace memtune::cli {

// Only places that something has.
std::string summary_table(const plan::PlanSummary& summary);

}  // namespace memtune::cli
