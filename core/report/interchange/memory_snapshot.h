// A trace's memory in the form of PyTorch's memory snapshot, which pytorch.org/memory_viz opens: a pickle.
//
// A trace knows how much each owner holds, not where: every owner gets a segment of its own, in which it piles up what
// it takes and gives back the latest first. Sizes and times are the trace's, addresses are made up.
#pragma once

#include <string>

#include "core/trace/event.h"

namespace memtune::report {

std::string memory_snapshot(const trace::Trace& trace);

}  // namespace memtune::report
