// Peak memory of each op while it runs, outputs included, and peak of the forward. Learned from a step that resets the
// device's peak at every op.
#pragma once

#include <vector>

#include "core/base/device/device.h"

namespace memtune::step {

class LearnedForwardOpMemoryPeaks {
 public:
  LearnedForwardOpMemoryPeaks(device::Device& device, size_t ops) : device_(device), bytes_(ops, 0) {}

  int64_t bytes(int op) const { return bytes_[op]; }  // 0: not learned

  void begin_learning();
  void end_learning() { learning_ = false; }
  int64_t forward_peak() const { return forward_peak_; }

  // No effect unless learning.
  void before_op();
  void after_op(int op);
  void end_forward();
  // Call around a moment at which offloaded sources may be released. Their bytes are not counted for the running op.
  void before_leaving();
  void after_leaving();

 private:
  int64_t see_peak();  // Returns the device's peak since the last call, and resets it.

  device::Device& device_;
  std::vector<int64_t> bytes_;  // by op
  bool learning_ = false, in_op_ = false;
  int64_t forward_peak_ = 0;
  int64_t others_bytes_ = 0;  // allocated by others than the running op
  int64_t op_bytes_ = 0;      // peak of the running op so far
  int64_t leaving_from_ = 0;  // allocated at the last before_leaving()
};

}  // namespace memtune::step
