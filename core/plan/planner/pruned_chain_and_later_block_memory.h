// A chain without the options that no best choice needs, and the least memory that later blocks need after each option.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/plan/planner/chain_planning_problem.h"

namespace memtune::planner {

class PrunedChainAndLaterBlockMemory {
 public:
  explicit PrunedChainAndLaterBlockMemory(const ChainPlanningProblem& chain);

  const ChainPlanningProblem& chain() const { return chain_; }
  size_t size() const { return chain_.blocks.size(); }
  const std::vector<ChainBlockOptionCosts>& options(size_t block) const { return chain_.blocks[block].options; }

  // ms per byte of a copy; 0: nothing can be offloaded.
  double out_ms() const { return out_ms_; }
  double write_ms() const { return write_ms_; }  // of the disk
  double staging_ms() const { return static_cast<double>(chain_.staging_bytes) * write_ms_; }
  // Time until the bytes of the option are back.
  double back_ms(const ChainBlockOptionCosts& option) const {
    return std::max(static_cast<double>(option.offloaded_bytes) * in_ms_,
                    static_cast<double>(option.disk_bytes) * read_ms_);
  }
  double late_ms(const ChainBlockOptionCosts& option, double behind_ms) const {
    return std::max(0.0, back_ms(option) - behind_ms);
  }

  // Whether the blocks after `block`, which takes `option`, fit in this much budget, host memory and disk.
  bool fits_behind(size_t block, size_t option, int64_t room_bytes, int64_t host_bytes, int64_t disk_bytes) const;
  // The choice of least budget; nothing if no choice fits any budget. Exact, like fits_behind(), unless is_thinned():
  // then some ways to trade host bytes for budget were dropped.
  std::optional<std::vector<int>> least_choice() const;
  std::optional<int64_t> least_budget() const;
  bool is_thinned() const { return is_thinned_; }

  bool has_host_limit() const { return chain_.host_budget_bytes > 0; }
  int64_t host_limit() const { return has_host_limit() ? chain_.host_budget_bytes : kNoLimit; }

  bool has_disk_limit() const { return chain_.disk_budget_bytes > 0; }
  int64_t disk_limit() const { return has_disk_limit() ? chain_.disk_budget_bytes : kNoLimit; }

  // Converts option numbers to those of the given chain.
  std::vector<int> original(const std::vector<int>& choice) const;

 private:
  // Least memory for the blocks after one, on top of what is kept before them, and the choice that achieves it.
  struct Need {
    int64_t host_bytes = 0, disk_bytes = 0, budget_bytes = 0;
    int option = 0, index = 0;  // of the next block; index of its need
  };
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  void reduce(size_t block);
  bool can_be(const ChainBlockOptionCosts& option) const;
  void lift_limits();
  void find_needs(size_t block);
  std::vector<Need> needs_with(size_t block, int64_t offloaded_bytes) const;
  void thin(std::vector<Need>& needs);

  ChainPlanningProblem chain_;
  double out_ms_ = 0, in_ms_ = 0, write_ms_ = 0, read_ms_ = 0;
  std::vector<std::vector<int>> original_;
  std::vector<std::vector<std::vector<Need>>> needs_;  // by block and option; sorted by host bytes, then disk bytes
  std::vector<Need> first_;                            // of all blocks
  bool is_thinned_ = false;
};

}  // namespace memtune::planner
