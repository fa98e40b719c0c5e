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
  // Around a moment at which values may leave: of what the running op takes that is no part.
  void before_leaving();
  void after_leaving();

 private:
  int64_t see_peak();  // of the device since the last; it begins anew

  device::Device& device_;
  std::vector<int64_t> bytes_;  // by op
  bool learning_ = false, in_op_ = false;
  int64_t forward_peak_ = 0;
  int64_t others_bytes_ = 0;  // allocated, but not by the running op
  int64_t op_bytes_ = 0;      // that it has taken at most
  int64_t leaving_from_ = 0;  // allocated when values may have begun to leave
};

}  // namespace memtune::step
