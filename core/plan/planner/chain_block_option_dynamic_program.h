// Label dynamic programme over the blocks of a chain. A label is the exact state after a block, for one choice up to
// it. A label is dropped if another is no worse in everything, or if its bound reaches the limit. If more than `cap`
// labels are left, thin() keeps those with the lowest bounds and one label per bucket of (resident, queue, host,
// moved).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/plan/planner/chain_time_lower_bound.h"
#include "core/plan/planner/pruned_chain_and_later_block_memory.h"

namespace memtune::planner {

class ChainBlockOptionDynamicProgram {
 public:
  // Both must outlive it. Choices of `limit_ms` or more are not searched.
  ChainBlockOptionDynamicProgram(const PrunedChainAndLaterBlockMemory& chain, const ChainTimeLowerBound& bound,
                                 double limit_ms, size_t cap);

  // Choices that fit, fastest first; at most `cap`.
  std::vector<std::vector<int>> run();

  // No dropped choice is faster; infinity if none was dropped.
  double dropped_ms() const { return dropped_ms_; }

 private:
  struct Label {
    double bound_ms = 0;
    ChainPrefixState state;
    int parent = -1, option = 0;
  };

  void extend(const Label& label, int parent, size_t block, std::vector<Label>& next);
  bool has_room(const ChainPrefixState& before, size_t block, size_t option) const;
  void thin(std::vector<Label>& labels);
  void drop(const Label& label);
  void keep_one_a_bucket(std::vector<Label>& labels, double coarser);
  void drop_dominated(std::vector<Label>& labels) const;
  std::vector<int> choice_of(size_t label) const;

  const PrunedChainAndLaterBlockMemory& chain_;
  const ChainTimeLowerBound& bound_;
  double limit_ms_;
  size_t cap_;
  std::vector<double> residue_floor_ms_;  // by block: residues below this do not matter
  std::vector<std::vector<Label>> layers_;
  double dropped_ms_ = std::numeric_limits<double>::infinity();
};

}  // namespace memtune::planner
