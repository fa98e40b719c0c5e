#include "core/engine/tier/host_tier.h"

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/scoped_timer.h"

namespace memtune::tier {
namespace {

// Removes entries up to the oldest piece that still is in `state`, and returns it. Null: there is none.
HostTierPiecePtr pop_front(std::deque<std::weak_ptr<HostTierPiece>>& queue, HostTierPiece::State state) {
  while (!queue.empty()) {
    HostTierPiecePtr piece = queue.front().lock();
    queue.pop_front();
    if (piece && piece->state == state) return piece;
  }
  return nullptr;
}

HostTierPiecePtr pop_back(std::deque<std::weak_ptr<HostTierPiece>>& queue, HostTierPiece::State state) {
  while (!queue.empty()) {
    HostTierPiecePtr piece = queue.back().lock();
    queue.pop_back();
    if (piece && piece->state == state) return piece;
  }
  return nullptr;
}

std::function<void()> wait_for(std::vector<device::EventPtr> events) {
  return [events = std::move(events)] {
    for (const auto& event : events) event->synchronize();
  };
}

}  // namespace

HostTier::HostTier(device::Device& device, int64_t slab_bytes, int64_t budget_bytes,
                   std::unique_ptr<disk::BlockStore> store, bool pinned, bool power_of_two)
    : pool_(device, slab_bytes, budget_bytes, pinned, power_of_two),
      budget_bytes_(budget_bytes),
      store_(std::move(store)) {}

void HostTier::set_budget(int64_t bytes) {
  budget_bytes_ = bytes == 0 ? 0 : std::max(bytes, pool_.reserved_bytes());
  pool_.set_budget(budget_bytes_);
}

void HostTier::begin_step() {
  reap();
  last_step_bytes_ = put_bytes_;
  put_bytes_ = 0;
  counters_ = {};
  for (Queue* queue : {&dirty_, &writing_, &ahead_})
    std::erase_if(*queue, [](const auto& piece) { return piece.expired(); });
}

HostTierPiecePtr HostTier::put(int64_t bytes, bool may_spill) {
  auto piece = std::make_shared<HostTierPiece>();
  piece->bytes = bytes;
  piece->may_spill = may_spill && store_;
  piece->lease = room(bytes);
  put_bytes_ += bytes;
  return piece;
}

void HostTier::stored(const HostTierPiecePtr& piece, device::EventPtr out_done) {
  piece->lease.set_free_after(std::move(out_done));
  if (!piece->may_spill) return;
  dirty_.push_back(piece);
  dirty_bytes_ += piece->bytes;
  while (dirty_bytes_ > dirty_limit())
    if (HostTierPiecePtr oldest = pop_front(dirty_, State::dirty)) start_write(oldest);
}

// A step that exceeds the budget is written early, so that many writes run at once. A step that fits is never written.
int64_t HostTier::dirty_limit() const {
  const bool fits = last_step_bytes_ > 0 && last_step_bytes_ <= budget_bytes_;
  return budget_bytes_ == 0 || fits ? INT64_MAX : budget_bytes_ / 8;
}

void HostTier::start_write(const HostTierPiecePtr& piece) {
  piece->block = store_->allocate(piece->bytes);
  disk_bytes_ += piece->bytes;
  peak_disk_bytes_ = std::max(peak_disk_bytes_, disk_bytes_);
  piece->request = store_->write(piece->block, piece->lease.data(), wait_for(piece->lease.free_after()));
  piece->state = State::writing;
  writing_.push_back(piece);
  dirty_bytes_ -= piece->bytes;
  counters_.disk_write_bytes += piece->bytes;
  if (recording_) io_.push_back({trace::EventKind::disk_write, piece->value, piece->bytes, piece->request});
}

void HostTier::start_read(HostTierPiece& piece, HostMemoryPool::Lease lease) {
  piece.request = store_->read(piece.block, lease.data(), wait_for(lease.free_after()));
  piece.lease = std::move(lease);
  piece.state = State::reading;
  counters_.disk_read_bytes += piece.bytes;
  if (recording_) io_.push_back({trace::EventKind::disk_read, piece.value, piece.bytes, piece.request});
}

HostMemoryPool::Lease HostTier::room(int64_t bytes) {
  reap();
  for (;;) {
    if (auto lease = pool_.try_lease(bytes)) {
      pin_new_slabs();
      return std::move(*lease);
    }
    if (!make_room())
      throw OutOfHostMemoryError("the host budget of " + format_bytes(budget_bytes_) + " has no room for " +
                                 format_bytes(bytes) + " more, " + format_bytes(pool_.leased_bytes()) + " are taken");
  }
}

// Disk transfers cost less with memory that is registered with the kernel.
void HostTier::pin_new_slabs() {
  if (!store_) return;
  for (const auto& slabs = pool_.slabs(); slabs_pinned_ < slabs.size(); ++slabs_pinned_)
    store_->pin(slabs[slabs_pinned_]->data(), slabs[slabs_pinned_]->bytes());
}

// Waits for a dropped piece, else evicts the oldest piece that is being written. Else starts to write the oldest dirty
// piece, else evicts the piece that was read ahead last. False: there is none of these.
bool HostTier::make_room() {
  ScopedTimer stall(counters_.room_stall);
  if (!leaving_.empty()) {
    leaving_.front()->request->wait();
    reap();
    return true;
  }
  HostTierPiecePtr piece = pop_front(writing_, State::writing);
  if (!piece) {
    if (HostTierPiecePtr dirty = pop_front(dirty_, State::dirty)) {
      start_write(dirty);
      return true;
    }
    piece = pop_back(ahead_, State::reading);
  }
  if (!piece) return false;
  piece->request->wait();
  leave_host(*piece, State::on_disk);
  return true;
}

void HostTier::leave_host(HostTierPiece& piece, State state) {
  piece.lease = {};
  piece.request.reset();
  piece.state = state;
}

bool HostTier::read_ahead(const HostTierPiecePtr& piece) {
  if (piece->state != State::on_disk) return true;
  reap();
  auto lease = pool_.try_lease(piece->bytes);
  if (!lease) return false;
  start_read(*piece, std::move(*lease));
  ahead_.push_back(piece);
  return true;
}

bool HostTier::ready(const HostTierPiece& piece) const {
  if (piece.state == State::reading) return piece.request->done();
  return piece.state == State::dirty || piece.state == State::writing;
}

const char* HostTier::fetch(const HostTierPiecePtr& piece) {
  if (piece->state == State::on_disk) start_read(*piece, room(piece->bytes));
  if (piece->state == State::reading) {
    ScopedTimer stall(counters_.disk_stall);
    piece->request->wait();
  }
  return piece->lease.data();
}

// A running request still needs the room: reap() frees it when the request is done.
void HostTier::drop(const HostTierPiecePtr& piece, device::EventPtr last_use) noexcept {
  if (piece->state == State::used) return;
  if (piece->state == State::dirty && piece->may_spill) dirty_bytes_ -= piece->bytes;
  if (last_use) piece->lease.set_free_after(std::move(last_use));
  const bool busy = piece->request && !piece->request->done();
  if (busy) {
    piece->state = State::used;
    leaving_.push_back(piece);
  } else {
    leave_host(*piece, State::used);
    leave_disk(*piece);
  }
}

void HostTier::reap() {
  std::erase_if(leaving_, [&](const HostTierPiecePtr& piece) {
    if (!piece->request->done()) return false;
    leave_host(*piece, State::used);
    leave_disk(*piece);
    return true;
  });
}

std::vector<HostTier::Io> HostTier::stop_recording() {
  recording_ = false;
  for (const Io& io : io_) io.request->wait();
  return std::exchange(io_, {});
}

void HostTier::leave_disk(HostTierPiece& piece) {
  if (piece.block) disk_bytes_ -= piece.bytes;
  piece.block = {};
}

HostTier::~HostTier() {
  for (const HostTierPiecePtr& piece : leaving_) try {
      piece->request->wait();
    } catch (...) {  // the step that waited for it has already thrown
    }
  reap();
}

}  // namespace memtune::tier
