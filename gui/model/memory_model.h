// The memory curve, stacked by owner: who holds how much at a moment, and the greatest moment within a stretch of time,
// so that a picture of any width shows every peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/event.h"

namespace memtune::gui {

struct OwnerCurve {
  trace::Owner owner;
  std::vector<int64_t> times_ns, bytes;  // from each time on
  int64_t bytes_at(int64_t time_ns) const;
};

// The stack at one moment: bytes of each owner in the model's order; what no owner holds is the ops' work space.
struct Stack {
  int64_t allocated_bytes = 0;
  std::vector<int64_t> owned_bytes;
  int64_t work_space_bytes() const;
};

struct MemoryModel {
  std::vector<OwnerCurve> owners;                  // from the bottom: what changes least comes first
  std::vector<int64_t> times_ns, allocated_bytes;  // the curve
  std::vector<int64_t> greatest;                   // of each 256 samples
  std::vector<std::vector<size_t>> families;       // of `owners`, in their order: blocks that are called alike are one
  size_t peak = 0;                                 // index of the curve's greatest sample; empty(): none

  bool empty() const { return times_ns.empty(); }
  Stack at(int64_t time_ns) const;
  Stack of_sample(size_t index) const;  // other than at(): one of a nanosecond that is not its last, as a peak may be
  // With the greatest allocation in [start, end).
  Stack greatest_between(int64_t start_ns, int64_t end_ns) const;
};
MemoryModel make_memory(const trace::Trace& trace);

}  // namespace memtune::gui
