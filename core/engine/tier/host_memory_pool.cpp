#include "core/engine/tier/host_memory_pool.h"

#include <algorithm>

namespace memtune::tier {
namespace {

// If the device has failed, done() throws. The event is kept, so that its next waiter gets the error.
bool is_done(const device::EventPtr& event) noexcept try { return event->done(); } catch (...) {
  return false;
}

void add_event(std::vector<device::EventPtr>& events, device::EventPtr event) {
  const auto implied = [&](const device::EventPtr& known) { return known->implies(*event); };
  if (std::any_of(events.begin(), events.end(), implied)) return;
  std::erase_if(events, [&](const device::EventPtr& known) { return event->implies(*known); });
  events.push_back(std::move(event));
}

}  // namespace

void CopyEventsBeforeHostMemoryReuse::set(device::EventPtr event) {
  events_.clear();
  if (event) events_.push_back(std::move(event));
}

void CopyEventsBeforeHostMemoryReuse::add(CopyEventsBeforeHostMemoryReuse other) {
  for (auto& event : other.events_) add_event(events_, std::move(event));
}

void CopyEventsBeforeHostMemoryReuse::forget_done() { std::erase_if(events_, is_done); }

HostMemoryPool::Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), range_(std::exchange(other.range_, {})) {}

HostMemoryPool::Lease& HostMemoryPool::Lease::operator=(Lease&& other) noexcept {
  Lease taken(std::move(other));
  std::swap(pool_, taken.pool_);
  std::swap(range_, taken.range_);
  return *this;
}

HostMemoryPool::Lease::~Lease() {
  if (pool_) pool_->ranges_.deallocate(std::move(range_));
}

std::optional<HostMemoryPool::Lease> HostMemoryPool::try_lease(int64_t bytes) {
  const auto add_slab = [this](int64_t slab) { slabs_.push_back(device_.allocate_host(slab, pinned_)); };
  std::optional<Ranges::Range> range = ranges_.try_lease(bytes, add_slab);
  if (!range) return std::nullopt;
  return Lease(*this, std::move(*range));
}

}  // namespace memtune::tier
