// Offloading: values are gathered, copied out and released.
#include <algorithm>
#include <utility>

#include "core/engine/offload/offload_engine.h"

namespace memtune::offload {
namespace {

using State = OffloadTransfer::State;
using device::CopyDirection;
using device::Stream;

}  // namespace

void OffloadEngine::start_offload(autograd::SavedStorage& value, int op) {
  at::Storage source = value.live_storage();
  const int64_t bytes = value.size_bytes();
  if (bytes < settings_.min_bytes || bytes == 0) return value.hold(std::move(source));
  if (!settings_.compatibility.counts_all) ++saves_;
  auto transfer = std::make_shared<OffloadTransfer>(*this, value, group_, order_.size(), saves_, op);
  transfer->source_ = std::move(source);
  order_.push_back(transfer.get());
  to_read_ = order_.size();
  gathered_.push_back(transfer.get());
  gathered_bytes_ += bytes;
  largest_bytes_ = std::max(largest_bytes_, bytes);
  value.start_offload(std::move(transfer));
  if (by_blocks() || gathers_more()) return;
  if (settings_.compatibility.stash_saves > 0) {
    evict(saves_ - settings_.compatibility.stash_saves);
    return start_gathered();
  }
  start_gathered();
  // On the compute stream, the copy is done before any later work can reuse the memory.
  retire([this](const OffloadTransfer&) { return settings_.side_stream && stash_bytes_ <= stash_limit(); });
}

// True if a small value may wait for more, because allocated memory is far below the learned peak.
bool OffloadEngine::gathers_more() const {
  if (!learned() || !settings_.side_stream || gathered_.back()->on_disk_) return false;
  if (gathered_bytes_ >= std::min(batch_bytes_, settings_.stash_bytes / 4)) return false;
  return device_.memory().allocated + op_bytes_ + 2 * batch_bytes_ <= schedule_.goal_bytes();
}

void OffloadEngine::end_block() {
  start_gathered();
  ++group_;
  if (by_blocks())
    retire([this](const OffloadTransfer& transfer) { return transfer.group_ >= group_ - settings_.groups_in_flight; });
}

void OffloadEngine::begin_block(int block) {
  end_block();
  if (follows_backward() && block >= 0) groups_[block] = group_;
}

void OffloadEngine::start_gathered() {
  const std::vector<OffloadTransfer*> gathered = std::exchange(gathered_, {});
  gathered_bytes_ = 0;
  for (size_t begin = 0, end = 0; begin < gathered.size(); begin = end) {
    int64_t bytes = 0;
    do bytes += gathered[end++]->bytes_;
    while (end < gathered.size() && bytes + gathered[end]->bytes_ <= batch_bytes_);
    start_out(std::span(gathered).subspan(begin, end - begin));
  }
}

void OffloadEngine::leave_gathered(OffloadTransfer& transfer) {
  if (std::erase(gathered_, &transfer) > 0) gathered_bytes_ -= transfer.bytes_;
}

void OffloadEngine::start_out(std::span<OffloadTransfer* const> transfers) {
  if (settings_.side_stream) device_.wait(Stream::out, device_.record(Stream::compute));
  Batch batch;
  for (OffloadTransfer* transfer : transfers) put(*transfer, batch);
  copy_out(batch);
}

// If the tier has no room this throws. The transfer keeps its source and can continue from its last piece.
void OffloadEngine::put(OffloadTransfer& transfer, Batch& batch) {
  for (int64_t offset = transfer.begin(transfer.pieces_.size()); offset < transfer.bytes_;
       offset += transfer.piece_bytes_) {
    const int64_t bytes = std::min(transfer.piece_bytes_, transfer.bytes_ - offset);
    tier::HostTierPiecePtr piece = tier_.put(bytes, transfer.on_disk_);
    piece->value = transfer.key_;
    for (const auto& event : piece->lease.free_after()) device_.wait(out_, event);
    const auto* from = static_cast<const char*>(transfer.source_.data()) + offset;
    batch.add(transfer, {piece->lease.data(), from, bytes}, piece);
    if (transfer.on_disk_) copy_out(batch);  // frees room for the next piece
  }
}

void OffloadEngine::copy_out(Batch& batch) {
  if (batch.copies.empty()) return;
  const device::EventPtr done = enqueue(batch, CopyDirection::to_host, out_);
  if (settings_.compatibility.host_waits) done->synchronize();
  for (auto& [transfer, piece] : batch.parts) {
    transfer->out_done_ = done;
    counters_.out_bytes += piece->bytes;
    transfer->pieces_.push_back(piece);
    tier_.stored(piece, done);
    if (!transfer->all_out()) continue;
    transfer->state_ = State::stashed;
    stash_.push_back(transfer);
    stash_bytes_ += transfer->bytes_;
  }
  batch = {};
}

// Before learning, the stash is limited to two of the largest transfers. A larger stash could hold most of the
// offloaded bytes and save no memory. After learning, make_room() decides.
int64_t OffloadEngine::stash_limit() const {
  return learned() ? settings_.stash_bytes : std::min(settings_.stash_bytes, 2 * largest_bytes_);
}

// Releases sources, oldest first, until `may_stay` accepts one. Whether the copy has ended decides only if compute
// waits for it, so that every step, and a simulated one, has the same blocks free at the same op.
void OffloadEngine::retire(const std::function<bool(const OffloadTransfer&)>& may_stay) {
  device::EventPtr done;  // last event seen done; transfers of a batch share one event
  while (!stash_.empty() && !may_stay(*stash_.front())) {
    OffloadTransfer& oldest = *stash_.front();
    stash_.pop_front();
    if (oldest.out_done_ != done && oldest.out_done_->done()) done = oldest.out_done_;
    if (oldest.out_done_ != done) compute_waits(oldest.out_done_);
    leave_device(oldest);
  }
}

// Releases sources whose count of saves is at most `save`, whether or not their copies have ended.
void OffloadEngine::evict(int64_t save) {
  while (!stash_.empty() && stash_.front()->save_ <= save) {
    OffloadTransfer& oldest = *stash_.front();
    stash_.pop_front();
    compute_waits(oldest.out_done_);
    leave_device(oldest);
  }
}

void OffloadEngine::unstash(OffloadTransfer& transfer) {
  std::erase(stash_, &transfer);
  compute_waits(transfer.out_done_);
  leave_device(transfer);
}

void OffloadEngine::leave_device(OffloadTransfer& transfer) {
  transfer.source_ = at::Storage();
  transfer.state_ = State::offloaded;
  stash_bytes_ -= transfer.bytes_;
}

void OffloadEngine::make_room(int64_t bytes) {
  op_bytes_ = bytes;
  if (!learned() || (stash_.empty() && gathered_.empty())) return;
  const auto fits = [&] { return device_.memory().allocated + bytes <= schedule_.goal_bytes(); };
  if (fits()) return;
  if (!by_blocks()) start_gathered();
  retire([&](const OffloadTransfer&) { return fits(); });
}

void OffloadTransfer::before_overwrite() { offload_.before_overwrite(*this); }

void OffloadEngine::before_overwrite(OffloadTransfer& transfer) {
  if (transfer.state_ == State::gathered) {
    leave_gathered(transfer);
    OffloadTransfer* const one[] = {&transfer};
    start_out(one);
  }
  if (transfer.state_ == State::stashed) unstash(transfer);
}

void OffloadEngine::flush() {
  end_block();
  retire([](const OffloadTransfer&) { return false; });
}

void OffloadEngine::begin_head() {
  if (!learned() && settings_.compatibility.stash_saves == 0) flush();
}

// A source that is still on the device stays if there is room until backward needs it. This saves both copies.
void OffloadEngine::end_forward() {
  if (settings_.compatibility.stash_saves > 0) return;
  if (!learned()) {
    flush();
    if (follows_backward()) group_wanted_ = group_;  // group of the head and loss
    return;
  }
  end_block();
  std::deque<OffloadTransfer*> stash = std::exchange(stash_, {});
  for (; !stash.empty(); stash.pop_back()) {
    OffloadTransfer& newest = *stash.back();
    if (schedule_.fits_until_wanted(newest.number_, newest.bytes_)) {
      schedule_.hold_until_wanted(newest.number_, newest.bytes_);
      stash_.push_front(&newest);
    } else {
      unstash(newest);
    }
  }
}

}  // namespace memtune::offload
