#include "core/plan/schedule/disk_spilling_host_cache.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "core/base/bounds.h"

namespace memtune::schedule {

void DiskSpillingHostCache::begin_step() {
  reap();
  last_step_bytes_ = counters_.put_bytes;
  counters_.put_bytes = counters_.disk_write_bytes = counters_.disk_read_bytes = 0;
}

void DiskSpillingHostCache::put(SpillableActivationPiece& piece, bool may_spill) {
  piece.may_spill = may_spill && disk_;
  take_room(piece);
  counters_.put_bytes += piece.bytes;
}

void DiskSpillingHostCache::stored(const CachedPiecePtr& piece) {
  if (!piece->may_spill) return;
  enter(dirty_, piece);
  while (dirty_bytes_ > dirty_limit()) start_write(leave(dirty_, dirty_.begin()));
}

// A step that exceeds the budget is written early, so that many writes run at once. A step that fits is never written.
int64_t DiskSpillingHostCache::dirty_limit() const {
  const bool fits = last_step_bytes_ > 0 && last_step_bytes_ <= budget_bytes_;
  return budget_bytes_ == 0 || fits ? std::numeric_limits<int64_t>::max() : budget_bytes_ / 8;
}

void DiskSpillingHostCache::enter(Queue& queue, const CachedPiecePtr& piece) {
  piece->place = queue.insert(queue.end(), piece);
  piece->queue = &queue;
  if (&queue == &dirty_) dirty_bytes_ += piece->bytes;
}

CachedPiecePtr DiskSpillingHostCache::leave(Queue& queue, Queue::iterator place) {
  CachedPiecePtr piece = std::move(*place);
  queue.erase(place);
  piece->queue = nullptr;
  if (&queue == &dirty_) dirty_bytes_ -= piece->bytes;
  return piece;
}

void DiskSpillingHostCache::start_write(const CachedPiecePtr& piece) {
  storage_.write(*piece);
  piece->has_block = true;
  piece->state = State::writing;
  enter(writing_, piece);
  counters_.disk_bytes += piece->bytes;
  counters_.peak_disk_bytes = std::max(counters_.peak_disk_bytes, counters_.disk_bytes);
  counters_.disk_write_bytes = bounded_sum(counters_.disk_write_bytes, piece->bytes);
}

void DiskSpillingHostCache::start_read(SpillableActivationPiece& piece) {
  storage_.read(piece);
  piece.state = State::reading;
  counters_.disk_read_bytes = bounded_sum(counters_.disk_read_bytes, piece.bytes);
}

void DiskSpillingHostCache::take_room(SpillableActivationPiece& piece) {
  reap();
  while (!storage_.lease(piece))
    if (!make_room()) return storage_.lack_room(piece);
}

// Waits for a dropped piece, else evicts the oldest piece that is being written. Else starts to write the oldest dirty
// piece, else evicts the piece that was read ahead last. False: there is none of these.
bool DiskSpillingHostCache::make_room() {
  if (!leaving_.empty()) {
    storage_.wait(*leaving_.front(), DiskSpillingHostCacheBackend::Stall::for_room);
    reap();
    return true;
  }
  CachedPiecePtr piece;
  if (!writing_.empty()) {
    piece = leave(writing_, writing_.begin());
  } else if (!dirty_.empty()) {
    start_write(leave(dirty_, dirty_.begin()));
    return true;
  } else if (!ahead_.empty()) {
    piece = leave(ahead_, std::prev(ahead_.end()));
  } else {
    return false;
  }
  storage_.wait(*piece, DiskSpillingHostCacheBackend::Stall::for_room);
  leave_host(*piece, State::on_disk);
  return true;
}

void DiskSpillingHostCache::leave_host(SpillableActivationPiece& piece, State state) {
  storage_.free_room(piece);
  piece.state = state;
}

void DiskSpillingHostCache::leave_disk(SpillableActivationPiece& piece) {
  if (std::exchange(piece.has_block, false)) counters_.disk_bytes -= piece.bytes;
  storage_.free_block(piece);
}

bool DiskSpillingHostCache::read_ahead(const CachedPiecePtr& piece) {
  if (piece->state != State::on_disk) return true;
  reap();
  if (!storage_.lease(*piece)) return false;
  start_read(*piece);
  enter(ahead_, piece);
  return true;
}

bool DiskSpillingHostCache::ready(const SpillableActivationPiece& piece) const {
  if (piece.state == State::reading) return !storage_.busy(piece);
  return piece.state == State::dirty || piece.state == State::writing;
}

void DiskSpillingHostCache::fetch(SpillableActivationPiece& piece) {
  if (piece.state == State::on_disk) {
    take_room(piece);
    start_read(piece);
  }
  if (piece.state == State::reading) storage_.wait(piece, DiskSpillingHostCacheBackend::Stall::for_bytes);
}

// A running request still needs the room: reap() frees it when the request is done.
void DiskSpillingHostCache::drop(const CachedPiecePtr& piece) {
  if (piece->state == State::used) return;
  if (piece->queue) leave(*piece->queue, piece->place);
  if (storage_.busy(*piece)) {
    piece->state = State::used;
    leaving_.push_back(piece);
  } else {
    leave_host(*piece, State::used);
    leave_disk(*piece);
  }
}

void DiskSpillingHostCache::reap() {
  std::erase_if(leaving_, [&](const CachedPiecePtr& piece) {
    if (storage_.busy(*piece)) return false;
    leave_host(*piece, State::used);
    leave_disk(*piece);
    return true;
  });
}

void DiskSpillingHostCache::finish() noexcept {
  for (const CachedPiecePtr& piece : leaving_) try {
      storage_.wait(*piece, DiskSpillingHostCacheBackend::Stall::for_room);
    } catch (...) {  // the step that waited for it has already thrown
    }
  reap();
}

}  // namespace memtune::schedule
