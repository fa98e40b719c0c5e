// What regions of a trace say by their names and places.
#pragma once

#include <string>
#include <string_view>

#include "core/trace/event.h"

namespace memtune::trace {

// Blocks end in their number: "layers.3", "0"; others do not: "head", "parameters".
bool is_block(std::string_view name);

// The innermost of the device's regions around the moment: "layers.3 backward"; "" when there is none.
std::string region_at(const Trace& trace, int64_t time_ns);

}  // namespace memtune::trace
