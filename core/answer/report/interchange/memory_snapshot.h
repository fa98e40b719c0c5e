// Writes a trace's memory as a PyTorch memory snapshot (a pickle), which pytorch.org/memory_viz opens.
//
// A trace knows how much each owner holds, but not at which address. So each owner gets a segment of its own, filled
// and freed as a stack. Sizes and times are those of the trace; addresses are synthetic.
#pragma once

#include <string>

#include "core/record/trace/trace_event.h"

namespace memtune::report {

std::string memory_snapshot(const trace::Trace& trace);

}  // namespace memtune::report
