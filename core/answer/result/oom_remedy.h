// What helps against a cause of out of memory, in the words of the command's own settings.
#pragma once

#include <string>
#include <vector>

#include "core/answer/result/oom_cause.h"

namespace memtune::result {

// The first to try first: "gradient checkpointing (gradient_checkpointing: true)".
std::vector<std::string> remedies(OomCause cause, const OutOfMemoryBreakdown& oom);

}  // namespace memtune::result
