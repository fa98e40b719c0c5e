#include "core/plan/planner/pruned_chain_and_later_block_memory.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace memtune::planner {
namespace {

constexpr size_t kNeeds = 100'000;  // per option, over all blocks

// Every field is a cost: less of it never makes a choice worse. Less recomputation gives the copies of the block before
// less time to overlap, but never by more than it saves.
bool at_most(const ChainBlockOptionCosts& a, const ChainBlockOptionCosts& b) {
  return a.resident_bytes <= b.resident_bytes && a.offloaded_bytes <= b.offloaded_bytes &&
         a.recompute_ms <= b.recompute_ms && a.forward_peak_bytes <= b.forward_peak_bytes &&
         a.backward_peak_bytes <= b.backward_peak_bytes && a.disk_bytes <= b.disk_bytes &&
         a.host_bytes() <= b.host_bytes();
}

bool is_dominated(const std::vector<ChainBlockOptionCosts>& options, size_t one) {
  for (size_t other = 0; other < options.size(); ++other)
    if (other != one && at_most(options[other], options[one]) &&
        (other < one || !at_most(options[one], options[other])))
      return true;
  return false;
}

}  // namespace

PrunedChainAndLaterBlockMemory::PrunedChainAndLaterBlockMemory(const ChainPlanningProblem& chain)
    : chain_(chain), original_(chain.blocks.size()) {
  if (chain.out_bytes_per_ms > 0 && chain.in_bytes_per_ms > 0) {
    out_ms_ = 1 / chain.out_bytes_per_ms;
    in_ms_ = 1 / chain.in_bytes_per_ms;
  }
  if (chain.write_bytes_per_ms > 0 && chain.read_bytes_per_ms > 0) {
    write_ms_ = 1 / chain.write_bytes_per_ms;
    read_ms_ = 1 / chain.read_bytes_per_ms;
  }
  for (size_t i = 0; i < size(); ++i) reduce(i);
  lift_limits();
  needs_.resize(size());
  for (size_t i = size(); i-- > 0;) find_needs(i);
  first_ = needs_with(0, 0);
}

// A limit that no choice reaches only costs time.
void PrunedChainAndLaterBlockMemory::lift_limits() {
  int64_t host = 0, disk = 0;
  for (const ChainBlockTimesAndOptions& block : chain_.blocks) {
    int64_t most_host = 0, most_disk = 0;
    for (const ChainBlockOptionCosts& option : block.options) {
      most_host = std::max(most_host, option.host_bytes());
      most_disk = std::max(most_disk, option.disk_bytes);
    }
    host += most_host;
    disk += most_disk;
  }
  if (host <= chain_.host_budget_bytes) chain_.host_budget_bytes = 0;
  if (disk <= chain_.disk_budget_bytes) chain_.disk_budget_bytes = 0;
}

bool PrunedChainAndLaterBlockMemory::can_be(const ChainBlockOptionCosts& option) const {
  return (option.offloaded_bytes == 0 || out_ms_ > 0) && (option.disk_bytes == 0 || write_ms_ > 0) &&
         option.host_bytes() <= host_limit() && option.disk_bytes <= disk_limit();
}

void PrunedChainAndLaterBlockMemory::reduce(size_t block) {
  const std::vector<ChainBlockOptionCosts> all = options(block);
  std::vector<ChainBlockOptionCosts>& kept = chain_.blocks[block].options;
  kept.clear();
  for (size_t k = 0; k < all.size(); ++k) {
    if (!can_be(all[k]) || is_dominated(all, k)) continue;
    kept.push_back(all[k]);
    original_[block].push_back(static_cast<int>(k));
  }
}

void PrunedChainAndLaterBlockMemory::find_needs(size_t block) {
  for (const ChainBlockOptionCosts& option : options(block)) {
    needs_[block].push_back(block + 1 < size() ? needs_with(block + 1, option.offloaded_bytes) : std::vector<Need>(1));
    thin(needs_[block].back());
  }
}

// Needs of `block` and those after it, when the block before it moves `offloaded_bytes`. None is dominated by another.
std::vector<PrunedChainAndLaterBlockMemory::Need> PrunedChainAndLaterBlockMemory::needs_with(
    size_t block, int64_t offloaded_bytes) const {
  std::vector<Need> all, kept;
  for (size_t k = 0; block < size() && k < options(block).size(); ++k) {
    const ChainBlockOptionCosts& own = options(block)[k];
    const int64_t peak = std::max(own.forward_peak_bytes, own.backward_peak_bytes + offloaded_bytes);
    for (size_t j = 0; j < needs_[block][k].size(); ++j) {
      const Need& behind = needs_[block][k][j];
      const int64_t host = has_host_limit() ? behind.host_bytes + own.host_bytes() : 0;
      const int64_t disk = has_disk_limit() ? behind.disk_bytes + own.disk_bytes : 0;
      if (host > host_limit()) break;
      if (disk > disk_limit()) continue;
      all.push_back({host, disk, std::max(peak, own.resident_bytes + behind.budget_bytes), static_cast<int>(k),
                     static_cast<int>(j)});
    }
  }
  std::ranges::sort(all, {},
                    [](const Need& one) { return std::tuple(one.host_bytes, one.disk_bytes, one.budget_bytes); });
  for (const Need& one : all) {
    const auto beats = [&](const Need& other) {
      return other.disk_bytes <= one.disk_bytes && other.budget_bytes <= one.budget_bytes;
    };
    if (has_disk_limit() ? std::ranges::none_of(kept, beats) : kept.empty() || !beats(kept.back())) kept.push_back(one);
  }
  return kept;
}

// Both ends stay: the fewest host bytes and the least budget.
void PrunedChainAndLaterBlockMemory::thin(std::vector<Need>& needs) {
  const size_t most = std::max<size_t>(2, kNeeds / size());
  if (needs.size() <= most) return;
  is_thinned_ = true;
  for (size_t i = 0; i < most; ++i) needs[i] = needs[i * (needs.size() - 1) / (most - 1)];
  needs.resize(most);
}

bool PrunedChainAndLaterBlockMemory::fits_behind(size_t block, size_t option, int64_t room_bytes, int64_t host_bytes,
                                                 int64_t disk_bytes) const {
  const std::vector<Need>& needs = needs_[block][option];
  if (has_disk_limit())
    return std::ranges::any_of(needs, [&](const Need& need) {
      return need.host_bytes <= host_bytes && need.disk_bytes <= disk_bytes && need.budget_bytes <= room_bytes;
    });
  const auto past = std::ranges::upper_bound(needs, host_bytes, {}, &Need::host_bytes);
  return past != needs.begin() && std::prev(past)->budget_bytes <= room_bytes;
}

std::optional<int64_t> PrunedChainAndLaterBlockMemory::least_budget() const {
  if (size() == 0) return 0;
  if (first_.empty()) return std::nullopt;
  return std::ranges::min_element(first_, {}, &Need::budget_bytes)->budget_bytes;
}

std::optional<std::vector<int>> PrunedChainAndLaterBlockMemory::least_choice() const {
  std::vector<int> choice;
  const std::vector<Need>* needs = &first_;
  if (needs->empty() && size() > 0) return std::nullopt;
  const auto least = std::ranges::min_element(first_, {}, &Need::budget_bytes);
  for (size_t i = 0, at = static_cast<size_t>(least - first_.begin()); i < size(); ++i) {
    const Need& need = (*needs)[at];
    choice.push_back(need.option);
    needs = &needs_[i][static_cast<size_t>(need.option)];
    at = static_cast<size_t>(need.index);
  }
  return choice;
}

std::vector<int> PrunedChainAndLaterBlockMemory::original(const std::vector<int>& choice) const {
  std::vector<int> result(choice.size());
  for (size_t i = 0; i < choice.size(); ++i) result[i] = original_[i][static_cast<size_t>(choice[i])];
  return result;
}

}  // namespace memtune::planner
