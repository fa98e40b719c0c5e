// How little a chain can take from some point on: the chain's recurrences, each weighed by a multiplier and added up,
// leave a problem of neighbours that a small table solves. Any multipliers give a true bound; raise() looks for good
// ones.
//
// What is weighed: that each block's forward and backward find room (ms a byte), that host memory does (ms a byte), and
// that a wait is as long as the copies that it waits for (a share of the step's time: at most 1 in all).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/planner/chain_reduced.h"

namespace memtune::planner {

// A choice up to a block. Lower is better in resident, moved, host, disk, back, ms, and in ms, with residue and
// without, plus queue or write.
struct ChainState {
  int64_t resident_bytes = 0;
  int64_t moved_bytes = 0;                 // by the last block
  int64_t host_bytes = 0, disk_bytes = 0;  // 0 where there is no limit
  double back_ms = 0;                      // of the last block's bytes
  double ms = 0;        // forward so far, and backward of these blocks but for the wait for the last one's copies back
  double queue_ms = 0;  // from now until the copies out have ended
  double write_ms = 0;  // from now until the disk has written all
  // The step ends no sooner than so long behind `ms` and the queue that the last forward leaves: backward of some block
  // waited for room then.
  double residue_ms = -std::numeric_limits<double>::infinity();
};

class ChainBound {
 public:
  explicit ChainBound(const ReducedChain& chain);

  // Multipliers that bound better, towards `target_ms`, what some choice takes.
  void raise(double target_ms, int steps = 1000);

  double root_ms() const { return root_ms_; }
  // No choice that begins with `state`, whose last option is `option` of `block`, takes less.
  double completed_ms(const ChainState& state, size_t block, size_t option) const {
    const Weights& at = weights_[block];
    return state.ms + at.queue * state.queue_ms + at.residue * state.residue_ms +
           at.resident * (static_cast<double>(state.resident_bytes) - budget_) +
           multipliers_.host * (static_cast<double>(state.host_bytes) - host_budget_) + behind_[block][option];
  }

 private:
  struct Multipliers {
    std::vector<double> forward_room, backward_room, forward_wait, backward_wait;  // a block
    double host = 0;
  };
  // Of a state behind a block, and of what the block itself adds.
  struct Weights {
    double queue = 0, residue = 0, resident = 0;
    double forward = 0, backward = 0, late = 0, moved = 0, forward_peak = 0, backward_peak = 0, pending = 0;
  };

  void set(Multipliers multipliers);
  void weigh();
  void fill(size_t block);
  double own_ms(size_t block, size_t option) const;
  std::vector<int> cheapest() const;
  Multipliers slope(const std::vector<int>& choice) const;
  double square_of(const Multipliers& slope) const;
  Multipliers moved_along(const Multipliers& slope, double step) const;

  const ReducedChain& chain_;
  double budget_, host_budget_, unit_ms_;  // ms that a byte counts as when steps are taken
  Multipliers multipliers_;
  std::vector<Weights> weights_;
  std::vector<std::vector<double>> behind_;  // a block, an option: the least of what follows
  std::vector<std::vector<int>> next_;       // and the option of the next block with that
  double root_ms_ = 0;
};

// The state behind `block` when it takes `option` behind `before`; whether it fits is not asked.
ChainState follow(const ReducedChain& chain, const ChainState& before, size_t block, const ChainOption& option);
// What the step takes, behind all blocks.
double ended_ms(const ChainState& state);

}  // namespace memtune::planner
