// Call paths of memory as an SVG flame graph: widths are bytes, the outermost function is on top.
#pragma once

#include <string>
#include <vector>

#include "core/record/measurement/step_memory_breakdown.h"

namespace memtune::report {

// "" if there are no paths. Parts too narrow to see are left out.
std::string flame_graph(const std::vector<result::MemoryOfCallPath>& paths);

}  // namespace memtune::report
