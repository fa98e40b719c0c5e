// What each op takes of the device's memory at most while it runs, its outputs included; and what a forward holds at
// most. Learned from a step that resets the device's peak at every op.
#pragma once

#include <vector>

#include "core/device/device.h"

namespace memtune::step {

class OpMemory {
 public:
  OpMemory(device::Device& device, size_t ops) : device_(device), bytes_(ops, 0) {}

  int64_t bytes(int op) const { return bytes_[op]; }  // 0: not learned

  void begin_learning();
  void end_learning() { learning_ = false; }
  bool learning() const { return learning_; }
  int64_t forward_peak() const { return forward_peak_; }

  // Nothing happens but while learning.
  void before_op();
  void after_op(int op);
  void end_forward();

 private:
  device::Device& device_;
  std::vector<int64_t> bytes_;  // by op
  bool learning_ = false;
  int64_t forward_peak_ = 0, allocated_before_ = 0;
};

}  // namespace memtune::step
