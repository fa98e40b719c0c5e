// A bar a trial, as SVG; "" where there is nothing to show.
#pragma once

#include <string>

#include "core/report/report.h"

namespace memtune::report {

// Step times, with the interval of the median.
std::string step_chart(const Report& report);

// For every trial that moves values: how much of its copy time was hidden under compute, and what it moved where.
std::string overlap_chart(const Report& report);

}  // namespace memtune::report
