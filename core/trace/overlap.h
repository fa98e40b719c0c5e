// Transfer figures out of a trace's events. With C the union of copy intervals (out and in) and K the union of
// kernel and memset intervals: hidden = |C ∩ K| / |C|, exposed = |C \ K|; both 0 without copies. A direction's rate is
// its bytes over the union of its own copies. Copies within the device are neither: they use its memory, not the link.
#pragma once

#include "core/trace/event.h"
#include "core/trace/measurement.h"

namespace memtune::trace {

// Fills bytes, hidden, exposed_ms and rates, per step over `steps` traced steps; link rates stay 0.
Transfer measure_overlap(const Trace& trace, int steps);

}  // namespace memtune::trace
