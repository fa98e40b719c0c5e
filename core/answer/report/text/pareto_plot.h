// Time for the same work over peak as a terminal plot: braille dots for the front, a letter per trial and a key below.
#pragma once

#include <string>

#include "core/answer/report/report.h"
#include "core/answer/report/text/table.h"

namespace memtune::report {

// Ends with a line feed. At least 40 columns wide, even if the terminal is narrower.
std::string pareto_plot(const Report& report, TerminalCapabilities style);

}  // namespace memtune::report
