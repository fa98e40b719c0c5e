#include "core/engine/step/learned_forward_op_memory_peaks.h"

#include <algorithm>

namespace memtune::step {

void LearnedForwardOpMemoryPeaks::begin_learning() {
  learning_ = true;
  in_op_ = false;
  forward_peak_ = 0;
  device_.reset_peak();  // excludes the peak of earlier steps
}

int64_t LearnedForwardOpMemoryPeaks::see_peak() {
  const int64_t peak = device_.memory().peak_allocated;
  forward_peak_ = std::max(forward_peak_, peak);
  device_.reset_peak();
  return peak;
}

void LearnedForwardOpMemoryPeaks::before_op() {
  if (!learning_) return;
  see_peak();
  in_op_ = true;
  op_bytes_ = 0;
  others_bytes_ = device_.memory().allocated;
}

// An op saves its inputs before its kernel runs. With a small stash this releases older sources, and the kernel reuses
// their memory. If they stay, the op needs that memory in addition.
void LearnedForwardOpMemoryPeaks::before_leaving() {
  if (!learning_ || !in_op_) return;
  op_bytes_ = std::max(op_bytes_, see_peak() - others_bytes_);
  leaving_from_ = device_.memory().allocated;
}

void LearnedForwardOpMemoryPeaks::after_leaving() {
  if (!learning_ || !in_op_) return;
  others_bytes_ -= leaving_from_ - device_.memory().allocated;
  see_peak();
}

void LearnedForwardOpMemoryPeaks::after_op(int op) {
  if (!learning_) return;
  in_op_ = false;
  bytes_[op] = std::max({bytes_[op], op_bytes_, device_.memory().peak_allocated - others_bytes_});
}

void LearnedForwardOpMemoryPeaks::end_forward() {
  if (learning_) forward_peak_ = std::max(forward_peak_, device_.memory().peak_allocated);
}

}  // namespace memtune::step
