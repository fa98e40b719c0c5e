// A trace as Chrome trace-event JSON, for ui.perfetto.dev, chrome://tracing and Holistic Trace Analysis. Each stream is
// a track, saves and uses are instants, arrows follow a saved tensor, and counters show memory, in total and by owner.
#pragma once

#include <string>

#include "core/trace/event.h"

namespace memtune::report {

// Events are in order of time. Viewers drop slices of one track that overlap without nesting (disk requests in flight),
// so these go to a second track of the same name. Steps are numbered but not named ProfilerStep#n as in PyTorch's
// profiler: Holistic Trace Analysis would then drop kernels without a traced launch.
std::string perfetto(const trace::Trace& trace);

}  // namespace memtune::report
