// A trace's memory over time as SVG: stacked by owner, with the budget as a line and the peak marked.
#pragma once

#include <cstdint>
#include <string>

#include "core/record/trace/trace_event.h"

namespace memtune::report {

// `top_bytes`: smallest upper end of the axis, so that two charts share a scale. "" if the trace has no memory samples.
std::string memory_chart(const trace::Trace& trace, int64_t top_bytes);

// "36.2 GiB at 812.0 ms, in layers.3 backward: layers 24 GiB, optimizer 8 GiB, parameters 2 GiB". "" if the trace has
// no memory samples.
std::string peak_text(const trace::Trace& trace);

// The largest saved tensors on the device at the peak: "layers.*.w1 linear (16) 4 GiB, loss flatten 999.8 MiB".
std::string tensors_text(const trace::Trace& trace);

}  // namespace memtune::report
