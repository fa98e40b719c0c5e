// Who held memory after each part of a step. Asking that takes longer than many an op, so it is done in a step of its
// own: steps that are timed do the same and have the same curve.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/device.h"
#include "core/trace/event.h"
#include "core/trace/parts.h"
#include "core/trial/memory_owners.h"

namespace memtune::trial {

class MemoryCurve {
 public:
  // Both must outlive it.
  MemoryCurve(device::Device& device, const MemoryOwners& owners) : device_(device), owners_(owners) {}

  void begin_step() { device_.reset_peak(); }
  // After the step's part of that number, from 1.
  void sample(uint32_t part);
  // The curve of a step whose parts are those behind `before`, up to `last`: of one with fewer parts (a model may take
  // another branch) the end of the curve falls on its last.
  void add_to(trace::Trace& trace, const trace::PartClock& clock, uint32_t before, uint32_t last) const;

 private:
  struct Sample {
    uint32_t part;
    int64_t peak_bytes, allocated_bytes;  // within the part, and when it was issued
    std::vector<int64_t> owned;
  };

  device::Device& device_;
  const MemoryOwners& owners_;
  std::vector<Sample> samples_;
};

}  // namespace memtune::trial
