#include "core/plan/schedule/learned_memory_headroom_timeline.h"

#include <algorithm>

namespace memtune::schedule {

void LearnedMemoryHeadroomTimeline::begin_learning() {
  learning_ = true;
  goal_bytes_ = 0;
  held_bytes_.clear();
  wanted_.clear();
}

void LearnedMemoryHeadroomTimeline::end_learning(int64_t forward_bytes, int64_t last_bytes) {
  learning_ = false;
  note(now(), last_bytes);
  goal_bytes_ = std::max(forward_bytes, *std::max_element(held_bytes_.begin(), held_bytes_.end()));
}

void LearnedMemoryHeadroomTimeline::begin_step() {
  unpack_ = -1;
  room_bytes_.clear();
  if (!learned()) return;
  for (const int64_t held : held_bytes_) room_bytes_.push_back(goal_bytes_ - held);
}

void LearnedMemoryHeadroomTimeline::begin_unpack(int64_t held_bytes) {
  ++unpack_;
  // Bytes held before the first unpack belong to the forward.
  if (learning_ && unpack_ > 0) note(unpack_ - 1, held_bytes);
}

void LearnedMemoryHeadroomTimeline::note(int unpack, int64_t held_bytes) {
  const auto i = static_cast<std::size_t>(unpack);
  held_bytes_.resize(std::max(held_bytes_.size(), i + 1));
  held_bytes_[i] = std::max(held_bytes_[i], held_bytes);
}

void LearnedMemoryHeadroomTimeline::ask(std::size_t transfer) {
  if (!learning_) return;
  wanted_.resize(std::max(wanted_.size(), transfer + 1), kNever);
  if (wanted_[transfer] == kNever) wanted_[transfer] = unpack_;
}

bool LearnedMemoryHeadroomTimeline::fits_until_wanted(std::size_t transfer, int64_t bytes) const {
  if (wanted(transfer) == kNever) return false;
  for (int i = now(); i < wanted(transfer); ++i)
    if (room_bytes_[i] < bytes) return false;
  return true;
}

void LearnedMemoryHeadroomTimeline::hold_until_wanted(std::size_t transfer, int64_t bytes) {
  for (int i = now(); i < wanted(transfer); ++i) room_bytes_[i] -= bytes;
}

}  // namespace memtune::schedule
