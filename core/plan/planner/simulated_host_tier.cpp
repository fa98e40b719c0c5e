#include "core/plan/planner/simulated_host_tier.h"

#include <algorithm>
#include <limits>

#include "core/base/bounds.h"
#include "core/base/bytes.h"
#include "core/plan/schedule/copy_sizes.h"

namespace memtune::planner {
namespace {

double ms(int64_t bytes, double gb_per_s) { return gb_per_s > 0 ? static_cast<double>(bytes) / (gb_per_s * 1e6) : 0; }

}  // namespace

// --- room ------------------------------------------------------------------------------------------------------------

std::optional<SimulatedHostPool::Range> SimulatedHostPool::try_lease(int64_t bytes) {
  bytes = round_up(std::max<int64_t>(1, bytes), schedule::kHostGrainBytes);
  auto best = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range)
    if (range->bytes >= bytes && (best == free_.end() || range->bytes < best->bytes)) best = range;
  if (best == free_.end()) {
    if (!grow(bytes)) return std::nullopt;
    return try_lease(bytes);
  }
  const Range lease{best->begin, bytes, best->free_after};
  best->begin += bytes;
  best->bytes -= bytes;
  if (best->bytes == 0) free_.erase(best);
  leased_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, leased_bytes_);
  return lease;
}

SimulatedHostPool::Range SimulatedHostPool::lease_over_budget(int64_t bytes) {
  bytes = round_up(std::max<int64_t>(1, bytes), schedule::kHostGrainBytes);
  leased_bytes_ += bytes;
  peak_bytes_ = std::max({peak_bytes_, leased_bytes_, budget_bytes_ + 1});
  const Range lease{next_address_, bytes, 0};
  next_address_ += bytes + 1;  // the gap keeps slabs from being merged
  return lease;
}

void SimulatedHostPool::deallocate(const Range& range) {
  leased_bytes_ -= range.bytes;
  insert(range);
}

bool SimulatedHostPool::grow(int64_t bytes) {
  int64_t slab = std::max(bytes, slab_bytes_);
  if (budget_bytes_ > 0) slab = std::min(slab, budget_bytes_ - reserved_bytes_);
  if (slab < bytes) return false;
  insert({next_address_, slab, 0});
  next_address_ += slab + 1;
  reserved_bytes_ += slab;
  return true;
}

void SimulatedHostPool::insert(Range range) {
  auto next = std::ranges::find_if(free_, [&](const Range& other) { return other.begin > range.begin; });
  if (next != free_.end() && range.begin + range.bytes == next->begin) {
    range.bytes += next->bytes;
    range.free_after = std::max(range.free_after, next->free_after);
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->begin + std::prev(next)->bytes == range.begin) {
    Range& before = *std::prev(next);
    before.bytes += range.bytes;
    before.free_after = std::max(before.free_after, range.free_after);
  } else {
    free_.insert(next, range);
  }
}

// --- pieces ----------------------------------------------------------------------------------------------------------

std::optional<int> SimulatedHostTier::take_oldest(std::deque<int>& queue, State state) {
  while (!queue.empty()) {
    const int piece = queue.front();
    queue.pop_front();
    if (pieces_[piece].state == state) return piece;
  }
  return {};
}

std::optional<int> SimulatedHostTier::take_newest(std::deque<int>& queue, State state) {
  while (!queue.empty()) {
    const int piece = queue.back();
    queue.pop_back();
    if (pieces_[piece].state == state) return piece;
  }
  return {};
}

int SimulatedHostTier::put(int64_t bytes, bool may_spill) {
  const SimulatedHostPool::Range lease = room(bytes);
  Piece& piece = pieces_.emplace_back();
  piece.bytes = bytes;
  piece.may_spill = may_spill && tiers_.disk;
  piece.lease = lease;
  put_bytes_ += bytes;
  return static_cast<int>(pieces_.size()) - 1;
}

void SimulatedHostTier::stored(int number, double out_done) {
  Piece& piece = pieces_[number];
  piece.lease.free_after = out_done;
  if (!piece.may_spill) return;
  dirty_.push_back(number);
  dirty_bytes_ += piece.bytes;
  while (dirty_bytes_ > dirty_limit())
    if (const auto oldest = take_oldest(dirty_, State::dirty)) start_write(*oldest);
}

int64_t SimulatedHostTier::dirty_limit() const {
  const bool fits = last_step_bytes_ > 0 && last_step_bytes_ <= tiers_.host_budget_bytes;
  return tiers_.host_budget_bytes == 0 || fits ? std::numeric_limits<int64_t>::max() : tiers_.host_budget_bytes / 8;
}

void SimulatedHostTier::start_write(int number) {
  Piece& piece = pieces_[number];
  piece.has_block = piece.has_request = true;
  disk_bytes_ += piece.bytes;
  disk_peak_bytes_ = std::max(disk_peak_bytes_, disk_bytes_);
  write_free_ = std::max({write_free_, clock_.host, piece.lease.free_after}) + ms(piece.bytes, speeds_.write_gb_per_s);
  piece.written = piece.done = write_free_;
  piece.state = State::writing;
  writing_.push_back(number);
  dirty_bytes_ -= piece.bytes;
  disk_write_bytes_ = bounded_sum(disk_write_bytes_, piece.bytes);
}

void SimulatedHostTier::start_read(int number, const SimulatedHostPool::Range& lease) {
  Piece& piece = pieces_[number];
  const double begin = std::max({read_free_, clock_.host, piece.written, lease.free_after});
  piece.done = read_free_ = begin + ms(piece.bytes, speeds_.read_gb_per_s);
  piece.lease = lease;
  piece.in_host = piece.has_request = true;
  piece.state = State::reading;
  disk_read_bytes_ = bounded_sum(disk_read_bytes_, piece.bytes);
}

SimulatedHostPool::Range SimulatedHostTier::room(int64_t bytes) {
  reap();
  for (;;) {
    if (const auto lease = pool_.try_lease(bytes)) return *lease;
    if (!make_room()) return pool_.lease_over_budget(bytes);
  }
}

bool SimulatedHostTier::make_room() {
  if (!leaving_.empty()) {
    clock_.host_waits_until(pieces_[leaving_.front()].done);
    reap();
    return true;
  }
  std::optional<int> piece = take_oldest(writing_, State::writing);
  if (!piece) {
    if (const auto dirty = take_oldest(dirty_, State::dirty)) {
      start_write(*dirty);
      return true;
    }
    piece = take_newest(ahead_, State::reading);
  }
  if (!piece) return false;
  clock_.host_waits_until(pieces_[*piece].done);
  leave_host(pieces_[*piece], State::on_disk);
  return true;
}

void SimulatedHostTier::leave_host(Piece& piece, State state) {
  if (piece.in_host) pool_.deallocate(piece.lease);
  piece.in_host = piece.has_request = false;
  piece.state = state;
}

void SimulatedHostTier::leave_disk(Piece& piece) {
  if (piece.has_block) disk_bytes_ -= piece.bytes;
  piece.has_block = false;
}

bool SimulatedHostTier::read_ahead(int number) {
  if (pieces_[number].state != State::on_disk) return true;
  reap();
  const auto lease = pool_.try_lease(pieces_[number].bytes);
  if (!lease) return false;
  start_read(number, *lease);
  ahead_.push_back(number);
  return true;
}

bool SimulatedHostTier::ready(int number) const {
  const Piece& piece = pieces_[number];
  if (piece.state == State::reading) return clock_.ended(piece.done);
  return piece.state == State::dirty || piece.state == State::writing;
}

void SimulatedHostTier::fetch(int number) {
  if (pieces_[number].state == State::on_disk) start_read(number, room(pieces_[number].bytes));
  if (pieces_[number].state == State::reading) clock_.host_waits_until(pieces_[number].done);
}

void SimulatedHostTier::drop(int number, std::optional<double> last_use) {
  Piece& piece = pieces_[number];
  if (piece.state == State::used) return;
  if (piece.state == State::dirty && piece.may_spill) dirty_bytes_ -= piece.bytes;
  if (last_use) piece.lease.free_after = *last_use;
  if (piece.has_request && !clock_.ended(piece.done)) {
    piece.state = State::used;
    leaving_.push_back(number);
  } else {
    leave_host(piece, State::used);
    leave_disk(piece);
  }
}

void SimulatedHostTier::reap() {
  std::erase_if(leaving_, [&](int number) {
    Piece& piece = pieces_[number];
    if (!clock_.ended(piece.done)) return false;
    leave_host(piece, State::used);
    leave_disk(piece);
    return true;
  });
}

}  // namespace memtune::planner
