#include "core/plan/planner/chain_time_lower_bound.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace memtune::planner {
namespace {

double bytes(int64_t value) { return static_cast<double>(value); }

double own_time_ms(const PrunedChainAndLaterBlockMemory& chain) {
  double ms = 0;
  for (const ChainBlockTimesAndOptions& block : chain.chain().blocks) ms += block.forward_ms + block.backward_ms;
  return ms;
}

}  // namespace

ChainPrefixState follow(const PrunedChainAndLaterBlockMemory& chain, const ChainPrefixState& before, size_t block,
                        const ChainBlockOptionCosts& option) {
  const ChainBlockTimesAndOptions& own = chain.chain().blocks[block];
  const double room = bytes(chain.chain().budget_bytes - before.resident_bytes), out_ms = chain.out_ms();
  const double behind_ms = own.backward_ms + option.recompute_ms;
  const double late = std::max(0.0, before.back_ms - behind_ms);
  const double wait = std::max({0.0, before.queue_ms - (room - bytes(option.forward_peak_bytes)) * out_ms,
                                before.write_ms - chain.staging_ms()});
  const double room_back = room - bytes(option.backward_peak_bytes + before.offloaded_bytes);
  ChainPrefixState state;
  state.resident_bytes = before.resident_bytes + option.resident_bytes;
  state.offloaded_bytes = option.offloaded_bytes;
  state.host_bytes = chain.has_host_limit() ? before.host_bytes + option.host_bytes() : 0;
  state.disk_bytes = chain.has_disk_limit() ? before.disk_bytes + option.disk_bytes : 0;
  state.back_ms = chain.back_ms(option);
  state.ms = before.ms + wait + own.forward_ms + late + behind_ms;
  state.queue_ms = std::max(0.0, before.queue_ms - wait - own.forward_ms) + bytes(option.offloaded_bytes) * out_ms;
  state.write_ms = std::max(0.0, before.write_ms - wait - own.forward_ms) + bytes(option.disk_bytes) * chain.write_ms();
  state.residue_ms = std::max(before.residue_ms - late - behind_ms, -room_back * out_ms);
  return state;
}

double ended_ms(const ChainPrefixState& state) {
  return state.ms + std::max(state.back_ms, state.queue_ms + state.residue_ms);
}

ChainTimeLowerBound::ChainTimeLowerBound(const PrunedChainAndLaterBlockMemory& chain)
    : chain_(chain),
      budget_(bytes(chain.chain().budget_bytes)),
      host_budget_(bytes(chain.chain().host_budget_bytes)),
      unit_ms_(chain.out_ms() > 0 ? chain.out_ms() : own_time_ms(chain) / std::max(1.0, budget_)) {
  const std::vector<double> none(chain.size(), 0.0);
  set({none, none, none, none, 0});
}

void ChainTimeLowerBound::set(Multipliers multipliers) {
  multipliers_ = std::move(multipliers);
  weigh();
  behind_.assign(chain_.size(), {});
  next_.assign(chain_.size(), {});
  for (size_t i = chain_.size(); i-- > 0;) fill(i);
  root_ms_ = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < chain_.options(0).size(); ++k)
    root_ms_ = std::min(root_ms_, completed_ms(follow(chain_, {}, 0, chain_.options(0)[k]), 0, k));
}

void ChainTimeLowerBound::weigh() {
  const Multipliers& m = multipliers_;
  const size_t size = chain_.size();
  const double out_ms = chain_.out_ms();
  weights_.assign(size, {});
  double residues = 0, waits = 0, rooms = 0;
  for (size_t i = 0; i < size; ++i) {
    weights_[i].backward = 1 - residues;
    residues += m.backward_wait[i];
    weights_[i].late = 1 - residues;
    weights_[i].residue = residues;
  }
  for (size_t i = size; i-- > 0;) {
    Weights& at = weights_[i];
    at.queue = waits + residues;
    at.forward = 1 - at.queue;
    at.resident = rooms;
    at.moved = at.queue * out_ms;
    at.pending = i + 1 < size ? m.backward_wait[i + 1] * out_ms + m.backward_room[i + 1] : 0;
    at.forward_peak = m.forward_wait[i] * out_ms + m.forward_room[i];
    at.backward_peak = m.backward_wait[i] * out_ms + m.backward_room[i];
    waits += m.forward_wait[i];
    rooms += at.forward_peak + at.backward_peak;
  }
}

double ChainTimeLowerBound::own_ms(size_t block, size_t option) const {
  const ChainBlockTimesAndOptions& own = chain_.chain().blocks[block];
  const ChainBlockOptionCosts& one = own.options[option];
  const Weights& at = weights_[block];
  return at.forward * own.forward_ms + at.backward * (own.backward_ms + one.recompute_ms) +
         at.moved * bytes(one.offloaded_bytes) + multipliers_.host * bytes(one.host_bytes()) +
         at.resident * bytes(one.resident_bytes) + at.forward_peak * bytes(one.forward_peak_bytes) +
         at.backward_peak * bytes(one.backward_peak_bytes);
}

void ChainTimeLowerBound::fill(size_t block) {
  const bool last = block + 1 == chain_.size();
  const std::vector<ChainBlockOptionCosts> none;
  const std::vector<ChainBlockOptionCosts>& next = last ? none : chain_.options(block + 1);
  std::vector<double> follows(next.size());
  for (size_t k = 0; k < next.size(); ++k) follows[k] = own_ms(block + 1, k) + behind_[block + 1][k];
  for (const ChainBlockOptionCosts& option : chain_.options(block)) {
    double least = last ? weights_[block].late * chain_.late_ms(option, 0) : std::numeric_limits<double>::infinity();
    int best = 0;
    for (size_t k = 0; k < next.size(); ++k) {
      const double behind_ms = chain_.chain().blocks[block + 1].backward_ms + next[k].recompute_ms;
      const double ms = weights_[block].late * chain_.late_ms(option, behind_ms) + follows[k];
      if (ms < least) least = ms, best = static_cast<int>(k);
    }
    behind_[block].push_back(least + weights_[block].pending * bytes(option.offloaded_bytes));
    next_[block].push_back(best);
  }
}

std::vector<int> ChainTimeLowerBound::cheapest() const {
  std::vector<int> choice(chain_.size());
  double least = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < chain_.options(0).size(); ++k) {
    const double ms = completed_ms(follow(chain_, {}, 0, chain_.options(0)[k]), 0, k);
    if (ms < least) least = ms, choice[0] = static_cast<int>(k);
  }
  for (size_t i = 1; i < choice.size(); ++i) choice[i] = next_[i - 1][static_cast<size_t>(choice[i - 1])];
  return choice;
}

// By how much `choice` violates each weighted constraint, in ms.
ChainTimeLowerBound::Multipliers ChainTimeLowerBound::slope(const std::vector<int>& choice) const {
  const size_t size = chain_.size();
  const double out_ms = chain_.out_ms();
  Multipliers slope{std::vector<double>(size), std::vector<double>(size), std::vector<double>(size),
                    std::vector<double>(size), 0};
  const auto option = [&](size_t i) -> const ChainBlockOptionCosts& {
    return chain_.options(i)[static_cast<size_t>(choice[i])];
  };
  const std::vector<ChainBlockTimesAndOptions>& blocks = chain_.chain().blocks;
  double resident = 0, moved = 0, host = 0, forward_ms = 0, skipped_ms = 0;
  for (size_t i = 0; i < size; ++i) {
    const double before = i > 0 ? bytes(option(i - 1).offloaded_bytes) : 0;
    const double room = budget_ - resident - bytes(option(i).forward_peak_bytes);
    const double room_back = budget_ - resident - bytes(option(i).backward_peak_bytes) - before;
    if (i > 0) {
      slope.forward_room[i] = -room * unit_ms_;
      slope.backward_room[i] = -room_back * unit_ms_;
      slope.forward_wait[i] = blocks[0].forward_ms + (moved - room) * out_ms - forward_ms;
      slope.backward_wait[i] = -room_back * out_ms;
    }
    resident += bytes(option(i).resident_bytes);
    moved += bytes(option(i).offloaded_bytes);
    host += bytes(option(i).host_bytes());
    forward_ms += blocks[i].forward_ms;
  }
  slope.host = chain_.has_host_limit() ? (host - host_budget_) * unit_ms_ : 0;
  // If copies end after the last forward, only backward from the waiting block on follows them.
  for (size_t i = size; i-- > 1;) {
    const double behind_ms = i + 1 < size ? blocks[i + 1].backward_ms + option(i + 1).recompute_ms : 0;
    skipped_ms += chain_.late_ms(option(i), behind_ms);
    slope.backward_wait[i] += blocks[0].forward_ms + moved * out_ms - forward_ms - skipped_ms;
    skipped_ms += blocks[i].backward_ms + option(i).recompute_ms;
  }
  if (out_ms == 0) slope.forward_wait = slope.backward_wait = std::vector<double>(size, 0.0);
  return slope;
}

ChainTimeLowerBound::Multipliers ChainTimeLowerBound::moved_along(const Multipliers& slope, double step) const {
  Multipliers next = multipliers_;
  const auto add = [](std::vector<double>& to, const std::vector<double>& by, double scale) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(0.0, to[i] + by[i] * scale);
  };
  add(next.forward_room, slope.forward_room, step * unit_ms_);
  add(next.backward_room, slope.backward_room, step * unit_ms_);
  add(next.forward_wait, slope.forward_wait, step);
  add(next.backward_wait, slope.backward_wait, step);
  next.host = std::max(0.0, next.host + slope.host * step * unit_ms_);
  double shares = 0;
  for (size_t i = 0; i < chain_.size(); ++i) shares += next.forward_wait[i] + next.backward_wait[i];
  for (size_t i = 0; shares > 1 && i < chain_.size(); ++i)
    next.forward_wait[i] /= shares, next.backward_wait[i] /= shares;
  return next;
}

// Sums up what can change: a multiplier of 0 stays if its constraint has room.
double ChainTimeLowerBound::square_of(const Multipliers& slope) const {
  double square = slope.host > 0 || multipliers_.host > 0 ? slope.host * slope.host : 0;
  const auto add = [&square](const std::vector<double>& from, const std::vector<double>& by) {
    for (size_t i = 0; i < from.size(); ++i)
      if (by[i] > 0 || from[i] > 0) square += by[i] * by[i];
  };
  add(multipliers_.forward_room, slope.forward_room);
  add(multipliers_.backward_room, slope.backward_room);
  add(multipliers_.forward_wait, slope.forward_wait);
  add(multipliers_.backward_wait, slope.backward_wait);
  return square;
}

// Subgradient ascent. Steps are as long as the slope suggests for the target, and shorter when they stop helping.
void ChainTimeLowerBound::raise(double target_ms, int steps) {
  Multipliers best = multipliers_;
  double best_ms = root_ms_, length = 1;
  for (int step = 0, useless = 0; step < steps && best_ms < target_ms; ++step) {
    const Multipliers along = slope(cheapest());
    const double square = square_of(along);
    if (square == 0) break;
    set(moved_along(along, length * (target_ms - root_ms_) / square));
    useless = root_ms_ > best_ms ? 0 : useless + 1;
    if (root_ms_ > best_ms) best_ms = root_ms_, best = multipliers_;
    if (useless == 20) length /= 2, useless = 0, set(best);
  }
  set(best);
}

}  // namespace memtune::planner
