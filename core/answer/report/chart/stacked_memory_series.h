// A trace's memory over time by owner, resampled to the columns of a chart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/record/trace/trace_event.h"

namespace memtune::report {

struct MemoryOwnerBand {
  trace::MemoryOwner owner;    // of Trace::owners, or work space
  std::vector<int64_t> bytes;  // one per column
};

struct StackedMemorySeries {
  std::vector<MemoryOwnerBand> bands;  // bottom up, without bands that are always 0
  std::vector<int64_t> total;          // one per column
  int64_t start_ns = 0, end_ns = 0;
  int64_t peak_ns = 0, peak_bytes = 0;
  std::vector<int64_t> at_peak;  // one per band
  std::string phase;             // the region running on the device at the peak: "layers.3 backward"; may be empty

  bool empty() const { return total.empty(); }
};

// A column shows its highest sample, with each owner's bytes at that moment, so that no peak is lost. A column without
// samples repeats the last state.
StackedMemorySeries stack_memory(const trace::Trace& trace, int columns);

}  // namespace memtune::report
