// Merges traces of several ranks into one.
#pragma once

#include <cstdint>
#include <limits>

#include "core/record/trace/trace_event.h"

namespace memtune::trace {

// Adds the events of `from` that end after `since_ns` on its clock, shifted by `shift_ns`, on separate tracks for
// `rank`. Values and memory owners of `from` are not added.
void add_rank(const Trace& from, int32_t rank, int64_t shift_ns, Trace& to,
              int64_t since_ns = std::numeric_limits<int64_t>::min());

}  // namespace memtune::trace
