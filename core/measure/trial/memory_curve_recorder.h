// Records which owners held memory after each part of a step. The query takes longer than many ops, so it runs in a
// step of its own. Timed steps do the same work and have the same curve.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/device/device.h"
#include "core/measure/trial/device_memory_by_owner_sampler.h"
#include "core/record/trace/host_timeline_segments.h"
#include "core/record/trace/trace_event.h"

namespace memtune::trial {

class MemoryCurveRecorder {
 public:
  // Both must outlive it.
  MemoryCurveRecorder(device::Device& device, const DeviceMemoryByOwnerSampler& owners)
      : device_(device), owners_(owners) {}

  void begin_step() { device_.reset_peak(); }
  // After part number `part` of the step, from 1 on.
  void sample(uint32_t part);
  // Adds the curve to a timed step, whose parts are those after `before`, up to `last`. If it has fewer parts (a model
  // may take another branch), the end of the curve goes to the last one.
  void add_to(trace::Trace& trace, const trace::HostSegmentDeviceWindows& clock, uint32_t before, uint32_t last) const;

 private:
  struct Sample {
    uint32_t part;
    int64_t peak_bytes, allocated_bytes;  // highest in the part, and once it was issued
    std::vector<int64_t> owned;
  };

  device::Device& device_;
  const DeviceMemoryByOwnerSampler& owners_;
  std::vector<Sample> samples_;
};

}  // namespace memtune::trial
