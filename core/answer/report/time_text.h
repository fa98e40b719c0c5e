// The shares of a training command's step in a line. Text and HTML share it.
#pragma once

#include <string>

#include "core/answer/report/report.h"

namespace memtune::report {

// Of the recommended row, or of the only one that worked: "data 41 %, forward 20 %, ...", without what takes less than
// half a percent, then the advice. "" if it is not known.
std::string time_text(const Report& report);

}  // namespace memtune::report
