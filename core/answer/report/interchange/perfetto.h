// Writes a trace as Chrome trace-event JSON, for ui.perfetto.dev, chrome://tracing and Holistic Trace Analysis. Each
// stream is a track. Saves and uses are instants, arrows follow a saved tensor, and counters show memory in total and
// by owner.
#pragma once

#include <string>

#include "core/record/trace/trace_event.h"

namespace memtune::report {

// Events are in order of time. Viewers drop slices of a track that overlap without nesting (disk requests in flight).
// Such slices go to a second track of the same name. Steps have numbers but not the names ProfilerStep#n of PyTorch's
// profiler. With those, Holistic Trace Analysis would drop kernels without a traced launch.
std::string perfetto(const trace::Trace& trace);

}  // namespace memtune::report
