// The memory curve, stacked by owner: bytes of each owner at any moment, and the maximum within a range of time. The
// maximum lets a picture of any width show every peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/record/trace/trace_event.h"

namespace memtune::gui {

struct OwnerCurve {
  trace::MemoryOwner owner;
  std::vector<int64_t> times_ns, bytes;  // each value holds from its time on
  int64_t bytes_at(int64_t time_ns) const;
};

// The stack at one moment: bytes of each owner in the model's order. Memory without an owner is the ops' work space.
struct Stack {
  int64_t allocated_bytes = 0;
  std::vector<int64_t> owned_bytes;
  int64_t work_space_bytes() const;
};

struct MemoryModel {
  std::vector<OwnerCurve> owners;                  // from the bottom; the steadiest first
  std::vector<int64_t> times_ns, allocated_bytes;  // the curve
  std::vector<int64_t> greatest;                   // maximum of each 256 samples
  std::vector<std::vector<size_t>> families;  // of `owners`, in order: blocks with the same base name are one family
  size_t peak = 0;                            // index of the curve's maximum; empty(): none

  bool empty() const { return times_ns.empty(); }
  Stack at(int64_t time_ns) const;
  Stack of_sample(size_t index) const;  // unlike at(), also a sample that is not the last of its nanosecond
  // The stack at the maximum in [start, end).
  Stack greatest_between(int64_t start_ns, int64_t end_ns) const;
};
MemoryModel make_memory(const trace::Trace& trace);

}  // namespace memtune::gui
