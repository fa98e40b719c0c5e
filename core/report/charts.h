// The charts of a whole sweep, as SVG; "" where there is nothing to show. Memory over time is memory_chart.h's.
#pragma once

#include <string>

#include "core/report/report.h"

namespace memtune::report {

// Step time against peak: the front drawn, the recommended marked, the budget a line.
std::string pareto_chart(const Report& report);

// A bar a trial with the interval of its median.
std::string step_chart(const Report& report);

// For every trial that moves values: how much of its copy time was hidden under compute, and what it moved where.
std::string overlap_chart(const Report& report);

}  // namespace memtune::report
