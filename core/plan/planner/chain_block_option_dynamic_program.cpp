#include "core/plan/planner/chain_block_option_dynamic_program.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <unordered_map>
#include <utility>

namespace memtune::planner {
namespace {

constexpr size_t kCompared = 48;                               // labels that each is compared with, from both ends
constexpr double kResidentBuckets = 512, kQueueBuckets = 128;  // of the budget; of the longest queue
constexpr double kHostBuckets = 128;                           // of the host limit
constexpr double kFewBuckets = 1024;                           // from this coarseness on, moved_bytes does not count

bool at_most(const ChainPrefixState& a, const ChainPrefixState& b) {
  return a.resident_bytes <= b.resident_bytes && a.offloaded_bytes <= b.offloaded_bytes &&
         a.host_bytes <= b.host_bytes && a.disk_bytes <= b.disk_bytes && a.back_ms <= b.back_ms && a.ms <= b.ms &&
         a.ms + a.queue_ms <= b.ms + b.queue_ms && a.ms + a.residue_ms <= b.ms + b.residue_ms &&
         a.ms + a.queue_ms + a.residue_ms <= b.ms + b.queue_ms + b.residue_ms &&
         a.ms + a.write_ms <= b.ms + b.write_ms && a.ms + a.write_ms + a.residue_ms <= b.ms + b.write_ms + b.residue_ms;
}

uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15u;
  return value ^ (value >> 29);
}

}  // namespace

ChainBlockOptionDynamicProgram::ChainBlockOptionDynamicProgram(const PrunedChainAndLaterBlockMemory& chain,
                                                               const ChainTimeLowerBound& bound, double limit_ms,
                                                               size_t cap)
    : chain_(chain), bound_(bound), limit_ms_(limit_ms), cap_(cap), residue_floor_ms_(chain.size()) {
  double behind_ms = 0;
  int64_t largest = 0;
  for (const ChainBlockOptionCosts& option : chain.options(chain.size() - 1))
    largest = std::max(largest, option.offloaded_bytes);
  const double longest_ms = static_cast<double>(chain.chain().budget_bytes + largest) * chain.out_ms();
  for (size_t i = chain.size(); i-- > 0;) {
    residue_floor_ms_[i] = behind_ms - longest_ms;
    behind_ms += chain.chain().blocks[i].backward_ms;
  }
}

std::vector<std::vector<int>> ChainBlockOptionDynamicProgram::run() {
  layers_.assign(chain_.size(), {});
  extend({}, -1, 0, layers_[0]);
  for (size_t i = 1; i < chain_.size(); ++i) {
    thin(layers_[i - 1]);
    for (size_t j = 0; j < layers_[i - 1].size(); ++j) extend(layers_[i - 1][j], static_cast<int>(j), i, layers_[i]);
  }
  std::vector<Label>& last = layers_.back();
  std::ranges::sort(last, {}, &Label::bound_ms);
  std::vector<std::vector<int>> choices;
  for (size_t j = 0; j < std::min(last.size(), cap_); ++j) choices.push_back(choice_of(j));
  return choices;
}

bool ChainBlockOptionDynamicProgram::has_room(const ChainPrefixState& before, size_t block, size_t option) const {
  const ChainBlockOptionCosts& one = chain_.options(block)[option];
  const int64_t room = chain_.chain().budget_bytes - before.resident_bytes;
  const int64_t host_left = chain_.host_limit() - (chain_.has_host_limit() ? before.host_bytes + one.host_bytes() : 0);
  const int64_t disk_left = chain_.disk_limit() - (chain_.has_disk_limit() ? before.disk_bytes + one.disk_bytes : 0);
  return one.forward_peak_bytes <= room && one.backward_peak_bytes + before.offloaded_bytes <= room &&
         chain_.fits_behind(block, option, room - one.resident_bytes, host_left, disk_left);
}

void ChainBlockOptionDynamicProgram::extend(const Label& label, int parent, size_t block, std::vector<Label>& next) {
  for (size_t k = 0; k < chain_.options(block).size(); ++k) {
    if (!has_room(label.state, block, k)) continue;
    ChainPrefixState state = follow(chain_, label.state, block, chain_.options(block)[k]);
    state.residue_ms = std::max(state.residue_ms, residue_floor_ms_[block]);
    const bool is_last = block + 1 == chain_.size();
    const double bound_ms = is_last ? ended_ms(state) : bound_.completed_ms(state, block, k);
    if (bound_ms < limit_ms_) next.push_back({bound_ms, state, parent, static_cast<int>(k)});
  }
}

void ChainBlockOptionDynamicProgram::drop(const Label& label) { dropped_ms_ = std::min(dropped_ms_, label.bound_ms); }

// Half of the labels that stay have the lowest bounds. The other half are unlike each other, whatever their bounds. If
// the bound is weak, the best choice begins with a label that looks worse than many.
void ChainBlockOptionDynamicProgram::thin(std::vector<Label>& labels) {
  if (labels.size() > 2 * cap_) keep_one_a_bucket(labels, 1);
  std::ranges::sort(labels, {}, &Label::bound_ms);
  drop_dominated(labels);
  if (labels.size() <= cap_) return;
  const auto half = labels.begin() + static_cast<std::ptrdiff_t>(cap_ / 2);
  std::vector<Label> unlike(half, labels.end());
  for (double coarser = 2; unlike.size() > cap_ - cap_ / 2; coarser *= 2) keep_one_a_bucket(unlike, coarser);
  labels.erase(half, labels.end());
  labels.insert(labels.end(), unlike.begin(), unlike.end());
}

void ChainBlockOptionDynamicProgram::keep_one_a_bucket(std::vector<Label>& labels, double coarser) {
  const double budget = std::max(1.0, static_cast<double>(chain_.chain().budget_bytes)) * coarser;
  const double resident = kResidentBuckets / budget;
  const double queue = chain_.out_ms() > 0 ? kQueueBuckets / (budget * chain_.out_ms()) : 0;
  const double host = kHostBuckets / (static_cast<double>(chain_.host_limit()) * coarser);
  const auto bucket = [](double value, double buckets) { return static_cast<uint64_t>(value * buckets); };
  std::unordered_map<uint64_t, size_t> bucket_of;
  std::vector<Label> kept;
  for (const Label& label : labels) {
    const ChainPrefixState& state = label.state;
    const uint64_t key = (bucket(static_cast<double>(state.host_bytes), host) << 40) +
                         (bucket(static_cast<double>(state.resident_bytes), resident) << 20) +
                         bucket(state.queue_ms, queue);
    const uint64_t moved = coarser < kFewBuckets ? static_cast<uint64_t>(state.offloaded_bytes) : 0;
    const auto [at, is_new] = bucket_of.try_emplace(
        mixed(mixed(moved) + key + mixed(static_cast<uint64_t>(state.disk_bytes >> 24))), kept.size());
    if (is_new) {
      kept.push_back(label);
    } else {
      Label& other = kept[at->second];
      drop(label.bound_ms < other.bound_ms ? std::exchange(other, label) : label);
    }
  }
  labels = std::move(kept);
}

// Labels are sorted by bound, so a label that dominates another comes before it.
void ChainBlockOptionDynamicProgram::drop_dominated(std::vector<Label>& labels) const {
  size_t kept = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto rules = [&](size_t j) { return at_most(labels[j].state, labels[i].state); };
    bool is_dominated = false;
    for (size_t j = 0; j < std::min(kept, kCompared) && !is_dominated; ++j) is_dominated = rules(j);
    for (size_t j = kept; j > kCompared && j + kCompared > kept && !is_dominated; --j) is_dominated = rules(j - 1);
    if (!is_dominated) labels[kept++] = labels[i];
  }
  labels.resize(kept);
}

std::vector<int> ChainBlockOptionDynamicProgram::choice_of(size_t label) const {
  std::vector<int> choice(chain_.size());
  for (size_t i = chain_.size(); i-- > 0;) {
    choice[i] = layers_[i][label].option;
    label = static_cast<size_t>(layers_[i][label].parent);
  }
  return choice;
}

}  // namespace memtune::planner
