#include "core/planner/chain_reduced.h"

#include <algorithm>
#include <limits>

namespace memtune::planner {
namespace {

// Every field is a cost: less of it never makes a choice worse. Less recompute gives the copies of the block before
// less time to hide under, but never by more than it saves.
bool at_most(const ChainOption& a, const ChainOption& b) {
  return a.resident_bytes <= b.resident_bytes && a.moved_bytes <= b.moved_bytes && a.recompute_ms <= b.recompute_ms &&
         a.forward_peak_bytes <= b.forward_peak_bytes && a.backward_peak_bytes <= b.backward_peak_bytes;
}

bool is_dominated(const std::vector<ChainOption>& options, size_t one) {
  for (size_t other = 0; other < options.size(); ++other)
    if (other != one && at_most(options[other], options[one]) &&
        (other < one || !at_most(options[one], options[other])))
      return true;
  return false;
}

}  // namespace

ReducedChain::ReducedChain(const Chain& chain) : chain_(chain), original_(chain.blocks.size()) {
  if (chain.out_bytes_per_ms > 0 && chain.in_bytes_per_ms > 0) {
    out_ms_ = 1 / chain.out_bytes_per_ms;
    in_ms_ = 1 / chain.in_bytes_per_ms;
  }
  for (size_t i = 0; i < size(); ++i) reduce(i);
  find_needs();
}

void ReducedChain::reduce(size_t block) {
  const std::vector<ChainOption> all = options(block);
  std::vector<ChainOption>& kept = chain_.blocks[block].options;
  kept.clear();
  for (size_t k = 0; k < all.size(); ++k) {
    const bool moves = out_ms_ > 0 && fits(all[k].moved_bytes);
    if ((all[k].moved_bytes > 0 && !moves) || is_dominated(all, k)) continue;
    kept.push_back(all[k]);
    original_[block].push_back(static_cast<int>(k));
  }
}

double ReducedChain::late_ms(const ChainOption& option, double behind_ms) const {
  return std::max(0.0, static_cast<double>(option.moved_bytes) * in_ms_ - behind_ms);
}

void ReducedChain::find_needs() {
  needed_.resize(size());
  for (size_t i = size(); i-- > 0;) {
    for (const ChainOption& option : options(i)) {
      int64_t least = i + 1 < size() ? std::numeric_limits<int64_t>::max() : 0;
      for (size_t k = 0; i + 1 < size() && k < options(i + 1).size(); ++k) {
        const ChainOption& next = options(i + 1)[k];
        if (needed_[i + 1][k] == std::numeric_limits<int64_t>::max()) continue;
        least = std::min(least, std::max({next.forward_peak_bytes, next.backward_peak_bytes + option.moved_bytes,
                                          next.resident_bytes + needed_[i + 1][k]}));
      }
      needed_[i].push_back(least);
    }
  }
}

std::optional<int64_t> ReducedChain::least_budget() const {
  if (size() == 0) return 0;
  std::optional<int64_t> least;
  for (size_t k = 0; k < options(0).size(); ++k) {
    const ChainOption& option = options(0)[k];
    if (needed_[0][k] == std::numeric_limits<int64_t>::max()) continue;
    const int64_t needed =
        std::max({option.forward_peak_bytes, option.backward_peak_bytes, option.resident_bytes + needed_[0][k]});
    least = std::min(least.value_or(needed), needed);
  }
  return least;
}

std::vector<int> ReducedChain::original(const std::vector<int>& choice) const {
  std::vector<int> result(choice.size());
  for (size_t i = 0; i < choice.size(); ++i) result[i] = original_[i][static_cast<size_t>(choice[i])];
  return result;
}

}  // namespace memtune::planner
