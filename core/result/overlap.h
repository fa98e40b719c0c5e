// The figures of a step's copies out of a trace's events. With C the union of copy intervals (out and in) and K the
// union of kernel and memset intervals: hidden = |C ∩ K| / |C|, exposed = |C \ K|; both 0 without copies. A direction's
// rate is its bytes over the union of its own copies. Copies within the device are neither: they use its memory, not
// the link.
#pragma once

#include "core/result/measurement.h"
#include "core/trace/event.h"

namespace memtune::result {

// Fills bytes, hidden, exposed_ms and rates, per step over `steps` traced steps; link rates stay 0.
TransferFigures measure_overlap(const trace::Trace& trace, int steps);

// Of collectives, with C their union: collectives_ms = |C|, exposed_ms = |C \ K|, per step.
Communication measure_collectives(const trace::Trace& trace, int steps);

}  // namespace memtune::result
