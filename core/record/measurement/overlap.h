// Computes copy metrics of a step from a trace. Let C be the union of copy intervals (out and in) and K that of kernels
// and memsets. Then hidden = |C ∩ K| / |C| and exposed = |C \ K|; both are 0 without copies. A direction's rate is its
// bytes over the union of its own copies. Copies within the device do not count, because they do not use PCIe.
#pragma once

#include "core/record/measurement/trial_measurement.h"
#include "core/record/trace/trace_event.h"

namespace memtune::result {

// Fills bytes, hidden, exposed_ms and rates, per step over `steps` traced steps. PCIe bandwidth stays 0.
StepHostDeviceCopyStats measure_overlap(const trace::Trace& trace, int steps);

// For collectives, with C their union: collectives_ms = |C|, exposed_ms = |C \ K|, per step.
CommunicationStats measure_collectives(const trace::Trace& trace, int steps);

}  // namespace memtune::result
