#include "core/step/op_memory.h"

#include <algorithm>

namespace memtune::step {

void OpMemory::begin_learning() {
  learning_ = true;
  forward_peak_ = 0;
  device_.reset_peak();  // what steps before it held is not its own
}

void OpMemory::before_op() {
  if (!learning_) return;
  const device::MemoryUse memory = device_.memory();
  forward_peak_ = std::max(forward_peak_, memory.peak_allocated);
  allocated_before_ = memory.allocated;
  device_.reset_peak();
}

void OpMemory::after_op(int op) {
  if (!learning_) return;
  bytes_[op] = std::max(bytes_[op], device_.memory().peak_allocated - allocated_before_);
}

void OpMemory::end_forward() {
  if (learning_) forward_peak_ = std::max(forward_peak_, device_.memory().peak_allocated);
}

}  // namespace memtune::step
