#include "core/engine/tier/host_memory_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/bytes.h"
#include "core/plan/schedule/copy_sizes.h"

namespace memtune::tier {
namespace {

// If the device has failed, done() throws. The event is kept, so that its next waiter gets the error.
bool is_done(const device::EventPtr& event) noexcept try { return event->done(); } catch (...) {
  return false;
}

void forget_done(std::vector<device::EventPtr>& events) { std::erase_if(events, is_done); }

// Keeps one event per stream, the latest: asking the driver about every event costs more than the copies.
void add(std::vector<device::EventPtr>& events, device::EventPtr event) {
  const auto implied = [&](const device::EventPtr& known) { return known->implies(*event); };
  if (std::any_of(events.begin(), events.end(), implied)) return;
  std::erase_if(events, [&](const device::EventPtr& known) { return event->implies(*known); });
  events.push_back(std::move(event));
}

}  // namespace

HostMemoryPool::Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), range_(std::exchange(other.range_, {})) {}

HostMemoryPool::Lease& HostMemoryPool::Lease::operator=(Lease&& other) noexcept {
  Lease taken(std::move(other));
  std::swap(pool_, taken.pool_);
  std::swap(range_, taken.range_);
  return *this;
}

HostMemoryPool::Lease::~Lease() {
  if (pool_) pool_->deallocate(std::move(range_));
}

void HostMemoryPool::Lease::set_free_after(device::EventPtr event) {
  range_.free_after.clear();
  if (event) range_.free_after.push_back(std::move(event));
}

std::optional<HostMemoryPool::Lease> HostMemoryPool::try_lease(int64_t bytes) {
  bytes = round_up(std::max<int64_t>(1, bytes), schedule::kHostGrainBytes);
  if (power_of_two_) bytes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
  auto best = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range)
    if ((power_of_two_ ? range->bytes == bytes : range->bytes >= bytes) &&
        (best == free_.end() || range->bytes < best->bytes))
      best = range;
  if (best == free_.end()) {
    if (!grow(bytes)) return std::nullopt;
    return try_lease(bytes);
  }
  // Otherwise each lease from a large range would inherit the events of all earlier leases there.
  forget_done(best->free_after);
  Lease lease(*this, {best->begin, bytes, best->free_after});
  best->begin += bytes;
  best->bytes -= bytes;
  if (best->bytes == 0) free_.erase(best);
  leased_ += bytes;
  peak_leased_ = std::max(peak_leased_, leased_);
  return lease;
}

void HostMemoryPool::deallocate(Range range) noexcept {
  leased_ -= range.bytes;
  insert(std::move(range));
}

bool HostMemoryPool::grow(int64_t bytes) {
  int64_t slab = power_of_two_ ? bytes : std::max(bytes, slab_bytes_);
  if (budget_bytes_ > 0) slab = std::min(slab, budget_bytes_ - reserved_);
  if (slab < bytes) return false;
  slabs_.push_back(device_.allocate_host(slab, pinned_));
  reserved_ += slab;
  insert({slabs_.back()->data(), slab, {}});
  return true;
}

// Merges neighbouring free ranges. A merged range is free after the events of both.
void HostMemoryPool::insert(Range range) {
  auto next = std::find_if(free_.begin(), free_.end(), [&](const Range& other) { return other.begin > range.begin; });
  auto here = free_.insert(next, std::move(range));
  if (power_of_two_) return;
  auto merge = [&](std::list<Range>::iterator first, std::list<Range>::iterator second) {
    first->bytes += second->bytes;
    for (auto& event : second->free_after) add(first->free_after, std::move(event));
    free_.erase(second);
    return first;
  };
  if (next != free_.end() && here->begin + here->bytes == next->begin) merge(here, next);
  if (here != free_.begin()) {
    auto before = std::prev(here);
    if (before->begin + before->bytes == here->begin) merge(before, here);
  }
}

}  // namespace memtune::tier
