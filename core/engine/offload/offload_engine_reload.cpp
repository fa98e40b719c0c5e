// Reloads: on request of backward or prefetched. Also the destruction of a transfer in any state.
#include <c10/core/Allocator.h>

#include <algorithm>
#include <utility>

#include "core/base/device/torch/torch_device.h"
#include "core/engine/offload/offload_engine.h"

namespace memtune::offload {
namespace {

using State = OffloadTransfer::State;
using device::CopyDirection;
using device::Stream;

at::Storage new_storage(const device::Device& device, int64_t bytes) {
  c10::Allocator* allocator = c10::GetAllocator(device::torch_device(device).type());
  const auto size = static_cast<size_t>(bytes);
  return {at::Storage::use_byte_size_t(), size, allocator->allocate(size), allocator, /*resizable=*/true};
}

}  // namespace

at::Storage OffloadTransfer::reload() { return offload_.reload(*this); }

OffloadTransfer::~OffloadTransfer() { offload_.forget(*this); }

at::Storage OffloadEngine::reload(OffloadTransfer& transfer) {
  group_wanted_ = transfer.group_;
  op_wanted_ = transfer.op_;
  const void* served = std::exchange(node_served_, node_);
  if (settings_.compatibility.empties_stash && served && served != node_) evict(INT64_MAX);
  schedule_.ask(transfer.number_);
  if (transfer.source_) return transfer.source_;  // still on the device; while the copy out runs, the stash owns it too
  if (transfer.state_ == State::offloaded) {
    OffloadTransfer* const one[] = {&transfer};
    start_reloads(one);
  }
  copy_back(transfer, /*may_block=*/true);
  compute_waits(transfer.in_done_);
  prefetched_bytes_ -= transfer.bytes_;
  transfer.state_ = State::returned;
  return std::move(transfer.target_);
}

void OffloadEngine::start_reloads(std::span<OffloadTransfer* const> transfers) {
  for (OffloadTransfer* transfer : transfers)
    if (!transfer->target_) transfer->target_ = new_storage(device_, transfer->bytes_);
  // The new memory may have been freed by work that compute has not reached yet. The copy out ended before that work,
  // because compute waited for it before the source was released.
  if (settings_.side_stream) device_.wait(in_, device_.record(Stream::compute));
  Batch batch;
  for (OffloadTransfer* transfer : transfers) {
    transfer->state_ = State::reloading;
    prefetched_bytes_ += transfer->bytes_;
    if (!transfer->on_disk_) fetch(*transfer, batch);
  }
  copy_in(batch);
}

void OffloadEngine::fetch(OffloadTransfer& transfer, Batch& batch) {
  const tier::HostTierPiecePtr& piece = transfer.pieces_[transfer.pieces_back_];
  char* to = static_cast<char*>(transfer.target_.mutable_data()) + transfer.begin(transfer.pieces_back_);
  batch.add(transfer, {to, tier_.fetch(piece), piece->bytes}, piece);
}

void OffloadEngine::copy_in(Batch& batch) {
  if (batch.copies.empty()) return;
  const device::EventPtr done = enqueue(batch, CopyDirection::to_device, in_);
  for (auto& [transfer, piece] : batch.parts) {
    transfer->in_done_ = done;
    ++transfer->pieces_back_;
    counters_.in_bytes += piece->bytes;
    tier_.drop(piece, done);
  }
}

// Copies back the pieces in host memory, in order. With may_block, also those that must first be read from disk.
// Returns true if all pieces are issued.
bool OffloadEngine::copy_back(OffloadTransfer& transfer, bool may_block) {
  while (!transfer.all_back()) {
    if (!may_block && !tier_.ready(*transfer.pieces_[transfer.pieces_back_])) return false;
    Batch batch;
    fetch(transfer, batch);
    copy_in(batch);
    read_ahead();
  }
  return true;
}

// `pending_bytes`: bytes of the current batch that will be reloaded together with the transfer.
bool OffloadEngine::room_for(const OffloadTransfer& transfer, int64_t pending_bytes) {
  const bool near = transfer.group_ >= group_wanted_ - settings_.prefetch_blocks;
  if (!settings_.compatibility.learns) return near;
  if (!schedule_.fits_until_wanted(transfer.number_, transfer.bytes_)) return false;
  if (by_blocks()) return near;
  const int64_t ahead = prefetched_bytes_ + pending_bytes;
  return ahead == 0 || ahead + transfer.bytes_ <= settings_.prefetch_bytes;
}

// Reloads the rest of the current op's tensors and those of the next `prefetch_ops` ops.
void OffloadEngine::prefetch_next_op() {
  if (std::exchange(op_fetched_for_, op_wanted_) == op_wanted_) return;
  int ahead = 0, op = op_wanted_;
  for (; !order_.empty(); order_.pop_back()) {
    OffloadTransfer* transfer = order_.back();
    if (transfer && transfer->state_ == State::stashed && transfer->op_ != op_wanted_) return;
    if (!transfer || transfer->state_ != State::offloaded) continue;
    if (std::exchange(op, transfer->op_) != transfer->op_ && ++ahead > settings_.compatibility.prefetch_ops) return;
    start_reloads(std::span(&transfer, 1));
  }
}

void OffloadEngine::prefetch() {
  if (tier_.has_disk()) read_ahead();
  if (!settings_.compatibility.learns && !by_blocks()) {
    if (settings_.compatibility.prefetch_ops > 0) prefetch_next_op();
    return;
  }
  if (settings_.compatibility.learns && !learned()) return;
  if (!by_blocks() && settings_.prefetch_bytes == 0) return;
  std::vector<OffloadTransfer*> next;
  int64_t bytes = 0;
  const auto start = [&] {
    start_reloads(std::exchange(next, {}));
    bytes = 0;
  };
  for (; !order_.empty(); order_.pop_back()) {
    OffloadTransfer* transfer = order_.back();
    if (!transfer) continue;
    if (transfer->state_ == State::offloaded) {
      // A batch is no larger than the bytes already prefetched ahead of it. Otherwise backward would need its first
      // value before the whole batch has arrived.
      if (!next.empty() && bytes + transfer->bytes_ > std::min(batch_bytes_, prefetched_bytes_)) start();
      if (!room_for(*transfer, bytes)) break;
      if (settings_.compatibility.learns) schedule_.hold_until_wanted(transfer->number_, transfer->bytes_);
      next.push_back(transfer);
      bytes += transfer->bytes_;
      if (transfer->on_disk_) start();
    }
    if (transfer->state_ == State::reloading && !copy_back(*transfer, /*may_block=*/false)) break;
  }
  if (!next.empty()) start();
}

void OffloadEngine::enter_backward_block(int block) {
  if (!follows_backward()) return;
  const auto group = groups_.find(block);
  if (group == groups_.end() || group->second >= group_wanted_) return;
  group_wanted_ = group->second;
  prefetch();
}

void OffloadEngine::read_ahead() {
  for (to_read_ = std::min(to_read_, order_.size()); to_read_ > 0; --to_read_) {
    const OffloadTransfer* transfer = order_[to_read_ - 1];
    if (!transfer || !transfer->on_disk_) continue;
    for (size_t i = transfer->pieces_back_; i < transfer->pieces_.size(); ++i)
      if (!tier_.read_ahead(transfer->pieces_[i])) return;
  }
}

// Freed memory must not be touched: the compute stream, which reuses it, waits for copies in flight.
void OffloadEngine::forget(OffloadTransfer& transfer) noexcept {
  if (transfer.number_ < order_.size() && order_[transfer.number_] == &transfer) order_[transfer.number_] = nullptr;
  if (transfer.state_ == State::gathered) leave_gathered(transfer);
  if (transfer.state_ == State::stashed) {
    std::erase(stash_, &transfer);
    stash_bytes_ -= transfer.bytes_;
  }
  if (transfer.source_ && transfer.out_done_) device_.wait_quietly(Stream::compute, transfer.out_done_);
  if (transfer.state_ == State::reloading) {
    if (transfer.in_done_) device_.wait_quietly(Stream::compute, transfer.in_done_);
    prefetched_bytes_ -= transfer.bytes_;
  }
  for (const tier::HostTierPiecePtr& piece : transfer.pieces_) tier_.drop(piece);
}

}  // namespace memtune::offload
