// Explains in a paragraph why a training command ran out of device memory. Text and HTML share it.
#pragma once

#include <string>

#include "core/record/measurement/out_of_memory_breakdown.h"

namespace memtune::report {

// Cause, figures, holders, first remedy. Its texts are as safe to print as those of `oom`.
std::string oom_text(const result::OutOfMemoryBreakdown& oom);

}  // namespace memtune::report
