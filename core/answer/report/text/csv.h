// The report as CSV for spreadsheets: a header line and one line per trial, quoted as in RFC 4180, lines end in "\n".
#pragma once

#include <string>

#include "core/answer/report/report.h"

namespace memtune::report {

// Sizes are bytes, times are milliseconds, `hidden` is a share from 0 to 1. Figures that a failed trial did not measure
// are empty. Columns of predictions come last, if there are any.
std::string csv(const Report& report);

}  // namespace memtune::report
