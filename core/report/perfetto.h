// A trace as Chrome trace-event JSON, which ui.perfetto.dev and chrome://tracing open: one track a stream, allocated
// memory as a counter.
#pragma once

#include <string>

#include "core/trace/event.h"

namespace memtune::report {

// Slices of one track that overlap without nesting, which viewers drop, are put on a second track of the same name.
std::string perfetto(const trace::Trace& trace);

}  // namespace memtune::report
