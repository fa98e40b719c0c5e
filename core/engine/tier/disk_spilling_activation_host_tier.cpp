#include "core/engine/tier/disk_spilling_activation_host_tier.h"

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/scoped_timer.h"

namespace memtune::tier {
namespace {

OffloadedActivationPiece& of(schedule::SpillableActivationPiece& piece) {
  return static_cast<OffloadedActivationPiece&>(piece);
}

std::function<void()> wait_for(std::vector<device::EventPtr> events) {
  return [events = std::move(events)] {
    for (const auto& event : events) event->synchronize();
  };
}

}  // namespace

DiskSpillingActivationHostTier::DiskSpillingActivationHostTier(device::Device& device, int64_t slab_bytes,
                                                               int64_t budget_bytes,
                                                               std::unique_ptr<disk::ScratchBlockStore> store,
                                                               bool pinned, bool power_of_two)
    : pool_(device, slab_bytes, budget_bytes, pinned, power_of_two),
      budget_bytes_(budget_bytes),
      store_(std::move(store)),
      cache_(*this, budget_bytes, store_ != nullptr) {}

DiskSpillingActivationHostTier::~DiskSpillingActivationHostTier() { cache_.finish(); }

void DiskSpillingActivationHostTier::set_budget(int64_t bytes) {
  budget_bytes_ = bytes == 0 ? 0 : std::max(bytes, pool_.reserved_bytes());
  pool_.set_budget(budget_bytes_);
  cache_.set_budget(budget_bytes_);
}

void DiskSpillingActivationHostTier::begin_step() {
  cache_.begin_step();
  room_stall_ = disk_stall_ = {};
}

HostTierPiecePtr DiskSpillingActivationHostTier::put(int64_t bytes, bool may_spill) {
  auto piece = std::make_shared<OffloadedActivationPiece>();
  piece->bytes = bytes;
  cache_.put(*piece, may_spill);
  return piece;
}

void DiskSpillingActivationHostTier::stored(const HostTierPiecePtr& piece, device::EventPtr out_done) {
  piece->lease.set_free_after(std::move(out_done));
  cache_.stored(piece);
}

const char* DiskSpillingActivationHostTier::fetch(const HostTierPiecePtr& piece) {
  cache_.fetch(*piece);
  return piece->lease.data();
}

void DiskSpillingActivationHostTier::drop(const HostTierPiecePtr& piece, device::EventPtr last_use) noexcept {
  if (piece->state == OffloadedActivationPiece::State::used) return;
  if (last_use) piece->lease.set_free_after(std::move(last_use));
  cache_.drop(piece);
}

DiskSpillingActivationHostTier::Counters DiskSpillingActivationHostTier::counters() const {
  return {cache_.counters().disk_write_bytes, cache_.counters().disk_read_bytes, room_stall_, disk_stall_};
}

std::vector<DiskSpillingActivationHostTier::Io> DiskSpillingActivationHostTier::stop_recording() {
  recording_ = false;
  for (const Io& io : io_) io.request->wait();
  return std::exchange(io_, {});
}

// --- what the cache decides ------------------------------------------------------------------------------------------

bool DiskSpillingActivationHostTier::lease(schedule::SpillableActivationPiece& piece) {
  auto lease = pool_.try_lease(piece.bytes);
  if (!lease) return false;
  pin_new_slabs();
  of(piece).lease = std::move(*lease);
  return true;
}

// Disk transfers cost less with memory that is registered with the kernel.
void DiskSpillingActivationHostTier::pin_new_slabs() {
  if (!store_) return;
  for (const auto& slabs = pool_.slabs(); slabs_pinned_ < slabs.size(); ++slabs_pinned_)
    store_->pin(slabs[slabs_pinned_]->data(), slabs[slabs_pinned_]->bytes());
}

void DiskSpillingActivationHostTier::lack_room(schedule::SpillableActivationPiece& piece) {
  throw OutOfHostMemoryError("the host budget of " + format_bytes(budget_bytes_) + " has no room for " +
                             format_bytes(piece.bytes) + " more, " + format_bytes(pool_.leased_bytes()) + " are taken");
}

void DiskSpillingActivationHostTier::free_room(schedule::SpillableActivationPiece& piece) {
  of(piece).lease = {};
  of(piece).request.reset();
}

void DiskSpillingActivationHostTier::write(schedule::SpillableActivationPiece& cached) {
  OffloadedActivationPiece& piece = of(cached);
  piece.block = store_->allocate(piece.bytes);
  piece.request = store_->write(piece.block, piece.lease.data(), wait_for(piece.lease.free_after()));
  record(trace::EventKind::disk_write, piece);
}

void DiskSpillingActivationHostTier::read(schedule::SpillableActivationPiece& cached) {
  OffloadedActivationPiece& piece = of(cached);
  HostMemoryPool::Lease lease = std::move(piece.lease);  // returned if the store refuses
  piece.request = store_->read(piece.block, lease.data(), wait_for(lease.free_after()));
  piece.lease = std::move(lease);
  record(trace::EventKind::disk_read, piece);
}

void DiskSpillingActivationHostTier::record(trace::EventKind kind, const OffloadedActivationPiece& piece) {
  if (recording_) io_.push_back({kind, piece.value, piece.bytes, piece.request});
}

void DiskSpillingActivationHostTier::free_block(schedule::SpillableActivationPiece& piece) { of(piece).block = {}; }

bool DiskSpillingActivationHostTier::busy(const schedule::SpillableActivationPiece& piece) const {
  const disk::RequestPtr& request = static_cast<const OffloadedActivationPiece&>(piece).request;
  return request && !request->done();
}

void DiskSpillingActivationHostTier::wait(schedule::SpillableActivationPiece& piece, Stall stall) {
  const ScopedTimer timer(stall == Stall::for_room ? room_stall_ : disk_stall_);
  of(piece).request->wait();
}

}  // namespace memtune::tier
