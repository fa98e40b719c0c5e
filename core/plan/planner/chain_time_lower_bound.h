// Lower bound of the time that a chain takes from some state on (Lagrangian relaxation). The chain's recurrences are
// weighted by multipliers and summed up. In what remains only neighbours interact, so that a small table solves it. Any
// multipliers give a valid bound; raise() looks for good ones.
//
// Weighted constraints: forward and backward of each block fit the budget (ms per byte). Offloaded bytes fit in host
// memory (ms per byte). A wait is as long as the copies that it waits for (shares of the step time, at most 1 in all).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/plan/planner/pruned_chain_and_later_block_memory.h"

namespace memtune::planner {

// State of a choice up to a block. Lower is better in all bytes, in back_ms, in ms, and in ms plus queue_ms or
// write_ms; the sums count with and without residue_ms.
struct ChainPrefixState {
  int64_t resident_bytes = 0;
  int64_t offloaded_bytes = 0;             // of the last block
  int64_t host_bytes = 0, disk_bytes = 0;  // 0 if there is no limit
  double back_ms = 0;                      // to copy the last block's bytes back
  double ms = 0;        // forward so far, and backward of these blocks without the wait for the last copies back
  double queue_ms = 0;  // from now until the copies out have ended
  double write_ms = 0;  // from now until the disk has written everything
  // Time by which the step ends at least after `ms` plus the queue that the last forward leaves. Backward of some block
  // waited for room then.
  double residue_ms = -std::numeric_limits<double>::infinity();
};

class ChainTimeLowerBound {
 public:
  explicit ChainTimeLowerBound(const PrunedChainAndLaterBlockMemory& chain);

  // Looks for multipliers with a better bound, up to `target_ms`, the time of a known choice.
  void raise(double target_ms, int steps = 1000);

  double root_ms() const { return root_ms_; }
  // No choice that begins with `state` is faster. `option`: the last one in it, of `block`.
  double completed_ms(const ChainPrefixState& state, size_t block, size_t option) const {
    const Weights& at = weights_[block];
    return state.ms + at.queue * state.queue_ms + at.residue * state.residue_ms +
           at.resident * (static_cast<double>(state.resident_bytes) - budget_) +
           multipliers_.host * (static_cast<double>(state.host_bytes) - host_budget_) + behind_[block][option];
  }

 private:
  struct Multipliers {
    std::vector<double> forward_room, backward_room, forward_wait, backward_wait;  // by block
    double host = 0;
  };
  // Weights of the state after a block, and of what the block itself adds.
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

  const PrunedChainAndLaterBlockMemory& chain_;
  double budget_, host_budget_, unit_ms_;  // unit: ms per byte, used by raise()
  Multipliers multipliers_;
  std::vector<Weights> weights_;
  std::vector<std::vector<double>> behind_;  // by block and option: least time of what follows
  std::vector<std::vector<int>> next_;       // and the option of the next block with that time
  double root_ms_ = 0;
};

// The state after `block` takes `option`, from the state `before`. Does not check whether it fits.
ChainPrefixState follow(const PrunedChainAndLaterBlockMemory& chain, const ChainPrefixState& before, size_t block,
                        const ChainBlockOptionCosts& option);
// Step time of a state after all blocks.
double ended_ms(const ChainPrefixState& state);

}  // namespace memtune::planner
