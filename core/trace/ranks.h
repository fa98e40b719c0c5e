// One trace of several processes that trained together.
#pragma once

#include <cstdint>
#include <limits>

#include "core/trace/event.h"

namespace memtune::trace {

// Adds what ended behind `since_ns` on `from`'s clock, each event later by `shift_ns`, on tracks of that rank's own.
// Values and owners of memory are `to`'s alone.
void add_rank(const Trace& from, int32_t rank, int64_t shift_ns, Trace& to,
              int64_t since_ns = std::numeric_limits<int64_t>::min());

}  // namespace memtune::trace
