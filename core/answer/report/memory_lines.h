// Lines of the source that allocated memory, as texts of reports name them.
#pragma once

#include <string>
#include <vector>

#include "core/record/measurement/out_of_memory_breakdown.h"

namespace memtune::report {

// "train.py:41 (forward)".
std::string place_text(const result::AllocatingSourceLine& line);

// The lines with most bytes, with their source.
std::string lines_text(const std::vector<result::AllocatingSourceLine>& lines);

}  // namespace memtune::report
