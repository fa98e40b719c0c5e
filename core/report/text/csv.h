// The answer for spreadsheets: a header line and one line a trial, quoted as RFC 4180 asks, lines ended by "\n".
#pragma once

#include <string>

#include "core/report/report.h"

namespace memtune::report {

// Bytes are whole numbers, times milliseconds, `hidden` a share from 0 to 1. What a failed trial did not measure is
// empty. Where anything was predicted, columns for it are the last.
std::string csv(const Report& report);

}  // namespace memtune::report
