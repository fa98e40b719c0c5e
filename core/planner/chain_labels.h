// A label dynamic programme over the blocks of a chain: a label is the exact state behind a block of one choice up to
// it. What another label is at most in everything, or what the bound says cannot beat the limit, goes; where more
// labels stay than `cap`, one a bucket of (resident, queue, host, moved) stays, the one with the least bound, and of
// these some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/planner/chain_bound.h"
#include "core/planner/chain_reduced.h"

namespace memtune::planner {

class LabelSearch {
 public:
  // Both outlive it. Choices of `limit_ms` or more are not looked for.
  LabelSearch(const ReducedChain& chain, const ChainBound& bound, double limit_ms, size_t cap);

  // Choices that fit, the best first of those found: all that end, at most `cap`.
  std::vector<std::vector<int>> run();

  // No choice that was dropped takes less than this; infinity when nothing was.
  double dropped_ms() const { return dropped_ms_; }

 private:
  struct Label {
    double bound_ms = 0;
    ChainState state;
    int parent = -1, option = 0;
  };

  void extend(const Label& label, int parent, size_t block, std::vector<Label>& next);
  bool has_room(const ChainState& before, size_t block, size_t option) const;
  void thin(std::vector<Label>& labels);
  void drop(const Label& label);
  void keep_one_a_bucket(std::vector<Label>& labels, double coarser);
  void drop_dominated(std::vector<Label>& labels) const;
  std::vector<int> choice_of(size_t label) const;

  const ReducedChain& chain_;
  const ChainBound& bound_;
  double limit_ms_;
  size_t cap_;
  std::vector<double> residue_floor_ms_;  // a block: what residues cannot matter below
  std::vector<std::vector<Label>> layers_;
  double dropped_ms_ = std::numeric_limits<double>::infinity();
};

}  // namespace memtune::planner
