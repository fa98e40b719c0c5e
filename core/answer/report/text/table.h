// The report for people: a ranked table and the recommendation, as UTF-8 for a terminal or a text file.
#pragma once

#include <string>

#include "core/answer/report/report.h"

namespace memtune::report {

struct TerminalCapabilities {
  bool color = false;  // ANSI colors
  int width = 100;     // of the terminal; less important columns are dropped to fit
};

// Ends with a line feed.
std::string table(const Report& report, TerminalCapabilities style = {});

}  // namespace memtune::report
