// A trace as Chrome trace-event JSON, which ui.perfetto.dev and chrome://tracing open and Holistic Trace Analysis
// reads: one track a stream, moments as instants, arrows along the trip of a value, memory as counters, in total and by
// owner.
#pragma once

#include <string>

#include "core/trace/event.h"

namespace memtune::report {

// In order of time. Slices of one track that overlap without nesting (disk requests in flight), which viewers drop, are
// put on a second track of the same name. Steps are numbered, but not called ProfilerStep#n as PyTorch's profiler does:
// then Holistic Trace Analysis would drop every kernel whose launch on the host is not in the trace, that is all.
std::string perfetto(const trace::Trace& trace);

}  // namespace memtune::report
