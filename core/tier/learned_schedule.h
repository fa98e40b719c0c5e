// What one step taught about the memory of those that follow it: until when a value may lie on the device. Bytes only,
// no device; all steps, and where gradients are accumulated all passes of a step, send the same transfers and unpack
// the same saved tensors in the same order. Of passes counts at each unpack the one that held most.
//
// The step that is learned from leaves early (a small stash) and comes back late (nothing ahead), so it shows the least
// that the plan can do with. From it are kept, by unpack of its backward, the most that was held until the next, and by
// transfer, which unpack asked for it first:
//
//     unpack            0    1    2    3    4        goal = 9, the most of the step, its forward included
//     held at most      9    9    7    4    4        transfer 5 (2 bytes) is wanted by unpack 3,
//     room              0    0    2    5    5        so it may be here from unpack 2 on, and not before
//     with transfer 5   0    0    0    5    5
//
// A value may be here from now until it is wanted when every stretch between has room for it; whoever lets it, holds
// that room. So nothing is waited for, and nothing comes back late, that the peak does not ask for, and the peak is the
// lowest that the plan has.
//
// Instead of two settings that a person has to guess, as trainers have them (docs/decisions/learn-from-a-step.md):
// a fixed limit of waiting sources stalled the forward by 26 ms at 0.75 GiB and by 5 ms at 8 GiB with the same peak;
// a fixed depth of copies back, one block, needs 13.72 GiB at 3.69 times the step where this needs 12.22 at 3.75.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace memtune::tier {

class LearnedSchedule {
 public:
  // Around one whole step, which is learned from.
  void begin_learning();
  // `forward_bytes`, `last_bytes`: held at most by its forward, and since its last unpack.
  void end_learning(int64_t forward_bytes, int64_t last_bytes);
  bool learning() const { return learning_; }
  bool learned() const { return goal_bytes_ > 0; }
  int64_t goal_bytes() const { return goal_bytes_; }  // the peak of the step; 0: not learned

  void begin_step();  // or a further pass of it
  // Backward unpacks its next saved tensor; while learning with `held_bytes`, held at most since the one before.
  void begin_unpack(int64_t held_bytes = 0);
  // The running unpack asks for the `transfer`-th one that this step sent.
  void ask(std::size_t transfer);

  // Whether `bytes` of that transfer can lie on the device from now until it is asked for. False when it never was.
  bool fits_until_wanted(std::size_t transfer, int64_t bytes) const;
  void hold_until_wanted(std::size_t transfer, int64_t bytes);

 private:
  void note(int unpack, int64_t held_bytes);
  int wanted(std::size_t transfer) const { return transfer < wanted_.size() ? wanted_[transfer] : kNever; }
  int now() const { return unpack_ < 0 ? 0 : unpack_; }

  static constexpr int kNever = -1;
  bool learning_ = false;
  int64_t goal_bytes_ = 0;
  int unpack_ = -1;                  // the one that backward is at; -1: still in the forward
  std::vector<int64_t> held_bytes_;  // by unpack: at most until the next
  std::vector<int> wanted_;          // by transfer: the unpack that asked for it first
  std::vector<int64_t> room_bytes_;  // by unpack: that this step may still use until the next
};

}  // namespace memtune::tier
