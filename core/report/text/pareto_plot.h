// Time for the same work against peak as a plot in a terminal: a grid of braille dots for the front, a letter for every
// trial, and below it what the letters stand for.
#pragma once

#include <string>

#include "core/report/report.h"
#include "core/report/text/table.h"

namespace memtune::report {

// Ends with a line feed. At least 40 columns wide, whatever the terminal says.
std::string pareto_plot(const Report& report, TableStyle style);

}  // namespace memtune::report
