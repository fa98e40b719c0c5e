#include "core/measure/trial/memory_curve_recorder.h"

#include <algorithm>

namespace memtune::trial {
namespace {

// The last bytes of each owner in the trace.
std::vector<int64_t> last_owned(const trace::Trace& trace) {
  std::vector<int64_t> last(trace.owners.size(), 0);
  for (const auto& owned : trace.owned) last[owned.owner] = owned.bytes;
  return last;
}

}  // namespace

void MemoryCurveRecorder::sample(uint32_t part) {
  const device::AllocatorStats memory = device_.memory();
  device_.reset_peak();
  samples_.push_back({part, memory.peak_allocated, memory.allocated, owners_.bytes()});
}

void MemoryCurveRecorder::add_to(trace::Trace& trace, const trace::HostSegmentDeviceWindows& clock, uint32_t before,
                                 uint32_t last) const {
  std::vector<int64_t> owned = last_owned(trace);
  for (const Sample& sample : samples_) {
    const uint32_t part = std::min(before + sample.part, last);
    const int64_t time = clock.ends_ns(part);
    // Memory that an op allocates and frees while it runs is its work space, without an owner.
    const int64_t earlier = trace.memory.empty() ? 0 : trace.memory.back().time_ns;
    trace.memory.push_back({std::max(earlier, clock.begins_ns(part)), sample.peak_bytes});
    trace.memory.push_back({time, sample.allocated_bytes});
    for (uint32_t owner = 0; owner < owned.size(); ++owner)
      if (owned[owner] != sample.owned[owner]) trace.owned.push_back({time, owner, owned[owner] = sample.owned[owner]});
  }
}

}  // namespace memtune::trial
