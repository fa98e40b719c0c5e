// Bar charts as SVG with one bar per trial; "" if there is nothing to show.
#pragma once

#include <string>

#include "core/answer/report/report.h"

namespace memtune::report {

// Step times, with the interval of the median.
std::string step_chart(const Report& report);

// For each trial that offloads: hidden and exposed copy time, and the bytes copied in each direction.
std::string overlap_chart(const Report& report);

}  // namespace memtune::report
