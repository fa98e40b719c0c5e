// Learns from one step how long an activation can stay on the device, and how early it can be reloaded, without raising
// the peak. It counts bytes and owns no device memory. It assumes that all steps (and all micro-batches of a step)
// offload the same transfers and unpack the same saved tensors in the same order. With several micro-batches, the
// largest byte count of each unpack is used.
//
// The step that it learns from offloads early (small stash) and reloads late (no prefetch). It therefore shows the
// lowest peak that the plan can reach. Two things are recorded: by unpack of backward, the most bytes held until the
// next unpack; by transfer, the first unpack that needs it.
//
//     unpack            0    1    2    3    4        goal = 9, the peak of the step, forward included
//     held at most      9    9    7    4    4        transfer 5 (2 bytes) is wanted by unpack 3,
//     room              0    0    2    5    5        so it can be resident from unpack 2 on, not earlier
//     with transfer 5   0    0    0    5    5
//
// An activation can be resident from now until it is wanted if each interval in between has room for it. The caller
// then reserves that room. Compute thus waits for a copy only where the peak requires it, and the peak stays the lowest
// of the plan.
//
// This replaces two settings that trainers ask users for (docs/decisions/learn-from-a-step.md). A fixed limit of
// stashed sources stalled the forward by 26 ms at 0.75 GiB and by 5 ms at 8 GiB, with the same peak. A fixed reload
// depth of one block needs 13.72 GiB at 3.69 times the step time. This class needs 12.22 GiB at 3.75 times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace memtune::schedule {

class LearnedMemoryHeadroomTimeline {
 public:
  // Call these around one whole step, the one to learn from.
  void begin_learning();
  // `forward_bytes`: most bytes held during its forward. `last_bytes`: most bytes held since its last unpack.
  void end_learning(int64_t forward_bytes, int64_t last_bytes);
  bool learning() const { return learning_; }
  bool learned() const { return goal_bytes_ > 0; }
  int64_t goal_bytes() const { return goal_bytes_; }  // peak of the learned step; 0: not learned

  void begin_step();  // also before each further micro-batch of a step
  // Backward unpacks its next saved tensor. `held_bytes`: most bytes held since the previous unpack, used while
  // learning.
  void begin_unpack(int64_t held_bytes = 0);
  // The current unpack needs the transfer with this number (transfers count from 0 in each step).
  void ask(std::size_t transfer);

  // Whether `bytes` of the transfer can be on the device from now until it is wanted. False if no unpack wanted it
  // while learning. hold_until_wanted() reserves that room.
  bool fits_until_wanted(std::size_t transfer, int64_t bytes) const;
  void hold_until_wanted(std::size_t transfer, int64_t bytes);

 private:
  void note(int unpack, int64_t held_bytes);
  int wanted(std::size_t transfer) const { return transfer < wanted_.size() ? wanted_[transfer] : kNever; }
  int now() const { return unpack_ < 0 ? 0 : unpack_; }

  static constexpr int kNever = -1;
  bool learning_ = false;
  int64_t goal_bytes_ = 0;
  int unpack_ = -1;                  // current unpack of backward; -1: still in forward
  std::vector<int64_t> held_bytes_;  // by unpack: most bytes held until the next
  std::vector<int> wanted_;          // by transfer: the first unpack that needs it
  std::vector<int64_t> room_bytes_;  // by unpack: bytes that this step may still use until the next
};

}  // namespace memtune::schedule
