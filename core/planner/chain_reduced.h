// A chain less the options that no best choice needs, and what of the budget each option leaves to the blocks before
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/planner/chain.h"

namespace memtune::planner {

class ReducedChain {
 public:
  explicit ReducedChain(const Chain& chain);

  const Chain& chain() const { return chain_; }
  size_t size() const { return chain_.blocks.size(); }
  const std::vector<ChainOption>& options(size_t block) const { return chain_.blocks[block].options; }

  // ms a byte of the link: 0 where nothing can move.
  double out_ms() const { return out_ms_; }
  double in_ms() const { return in_ms_; }
  double late_ms(const ChainOption& option, double behind_ms) const;

  // The least budget of the blocks behind `block`, beside what it and those before it keep, when `option` is its.
  int64_t needed_behind(size_t block, size_t option) const { return needed_[block][option]; }
  // The least budget of all, whatever moves; nothing where a block has no option left.
  std::optional<int64_t> least_budget() const;
  bool fits(int64_t moved_bytes) const {
    return chain_.host_budget_bytes == 0 || moved_bytes <= chain_.host_budget_bytes;
  }

  // In the numbers of the chain that was given.
  std::vector<int> original(const std::vector<int>& choice) const;

 private:
  void reduce(size_t block);
  void find_needs();

  Chain chain_;
  double out_ms_ = 0, in_ms_ = 0;
  std::vector<std::vector<int>> original_;
  std::vector<std::vector<int64_t>> needed_;
};

}  // namespace memtune::planner
