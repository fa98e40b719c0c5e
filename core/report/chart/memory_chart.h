// Memory over a trace's time as SVG: stacked by owner, the budget a line, the peak flagged.
#pragma once

#include <cstdint>
#include <string>

#include "core/trace/event.h"

namespace memtune::report {

// `top_bytes`: what the axis reaches at least, so that two charts can be compared. "" when the trace has no memory.
std::string memory_chart(const trace::Trace& trace, int64_t top_bytes);

// "36.2 GiB at 812.0 ms, in layers.3 backward: layers 24 GiB, optimizer 8 GiB, parameters 2 GiB"; "" as above.
std::string peak_text(const trace::Trace& trace);

// "layers.*.w1 linear (16) 4 GiB, loss flatten 999.8 MiB": the plan's largest values that lie there at the peak.
std::string tensors_text(const trace::Trace& trace);

}  // namespace memtune::report
