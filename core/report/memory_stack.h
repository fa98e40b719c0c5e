// A trace's memory over time by who holds it, in as many columns as a chart has pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/event.h"

namespace memtune::report {

struct Band {
  trace::Owner owner;          // of Trace::owners, or the work space
  std::vector<int64_t> bytes;  // one a column
};

struct MemoryStack {
  std::vector<Band> bands;     // bottom up; those that never hold anything are left out
  std::vector<int64_t> total;  // one a column
  int64_t start_ns = 0, end_ns = 0;
  int64_t peak_ns = 0, peak_bytes = 0;
  std::vector<int64_t> at_peak;  // bytes of each band
  std::string phase;             // what the device was at: "layers.3 backward"; may be empty

  bool empty() const { return total.empty(); }
};

// A column shows the moment of its highest allocation, so that no peak is lost, and every owner as of that moment; one
// in which nothing changes shows what was there before.
MemoryStack stack_memory(const trace::Trace& trace, int columns);

}  // namespace memtune::report
