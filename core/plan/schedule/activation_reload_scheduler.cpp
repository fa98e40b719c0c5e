#include "core/plan/schedule/activation_reload_scheduler.h"

#include <algorithm>
#include <utility>

namespace memtune::schedule {

using State = ActivationOffloadAndReloadState::State;

void ActivationReloadScheduler::begin_step() {
  order_.clear();
  to_read_ = 0;
  groups_.clear();
  group_wanted_ = 0;
  op_wanted_ = op_fetched_for_ = -1;
  node_ = node_served_ = nullptr;
}

void ActivationReloadScheduler::add(ActivationOffloadAndReloadState& transfer) {
  transfer.number = order_.size();
  order_.push_back(&transfer);
  to_read_ = order_.size();
}

void ActivationReloadScheduler::begin_block(int block, int group) {
  if (follows_backward() && block >= 0) groups_[block] = group;
}

void ActivationReloadScheduler::end_forward(int group) {
  if (follows_backward()) group_wanted_ = group;  // group of the head and loss
}

void ActivationReloadScheduler::enter_backward_block(int block) {
  if (!follows_backward()) return;
  const auto group = groups_.find(block);
  if (group == groups_.end() || group->second >= group_wanted_) return;
  group_wanted_ = group->second;
  prefetch();
}

bool ActivationReloadScheduler::ask(const ActivationOffloadAndReloadState& transfer) {
  group_wanted_ = transfer.group;
  op_wanted_ = transfer.op;
  learned_.ask(transfer.number);
  const void* served = std::exchange(node_served_, node_);
  return served && served != node_;
}

void ActivationReloadScheduler::reload(ActivationOffloadAndReloadState& transfer) {
  if (transfer.state == State::offloaded) {
    ActivationOffloadAndReloadState* const one[] = {&transfer};
    start_reloads(one);
  }
  copy_back(transfer, /*may_block=*/true);
  device_.wait_in(transfer);
  prefetched_bytes_ -= transfer.bytes;
  transfer.state = State::returned;
}

void ActivationReloadScheduler::start_reloads(std::span<ActivationOffloadAndReloadState* const> transfers) {
  device_.begin_in(transfers);
  CopyBatch batch;
  for (ActivationOffloadAndReloadState* transfer : transfers) {
    transfer->state = State::reloading;
    prefetched_bytes_ += transfer->bytes;
    if (!transfer->on_disk) fetch(*transfer, batch);
  }
  copy_in(batch);
}

void ActivationReloadScheduler::fetch(ActivationOffloadAndReloadState& transfer, CopyBatch& batch) {
  const CachedPiecePtr& piece = transfer.pieces[transfer.pieces_back];
  cache_.fetch(*piece);
  batch.push_back({&transfer, piece, transfer.begin(transfer.pieces_back)});
}

void ActivationReloadScheduler::copy_in(CopyBatch& batch) {
  if (batch.empty()) return;
  device_.copy_in(batch);
  for (const ActivationPieceCopyBatchEntry& part : batch) {
    ++part.transfer->pieces_back;
    device_.drop(part);
  }
}

// Copies back the pieces in host memory, in order. With may_block, also those that must first be read from disk.
// Returns true if all pieces are issued.
bool ActivationReloadScheduler::copy_back(ActivationOffloadAndReloadState& transfer, bool may_block) {
  while (!transfer.all_back()) {
    if (!may_block && !cache_.ready(*transfer.pieces[transfer.pieces_back])) return false;
    CopyBatch batch;
    fetch(transfer, batch);
    copy_in(batch);
    read_ahead();
  }
  return true;
}

// `pending_bytes`: bytes of the current batch that will be reloaded together with the transfer.
bool ActivationReloadScheduler::room_for(const ActivationOffloadAndReloadState& transfer, int64_t pending_bytes) const {
  const bool near = transfer.group >= group_wanted_ - settings_.prefetch_blocks;
  if (!settings_.compatibility.learns) return near;
  if (!learned_.fits_until_wanted(transfer.number, transfer.bytes)) return false;
  if (by_blocks()) return near;
  const int64_t ahead = prefetched_bytes_ + pending_bytes;
  return ahead == 0 || ahead + transfer.bytes <= settings_.prefetch_bytes;
}

// Reloads the rest of the current op's tensors and those of the next `prefetch_ops` ops.
void ActivationReloadScheduler::prefetch_next_op() {
  if (std::exchange(op_fetched_for_, op_wanted_) == op_wanted_) return;
  int ahead = 0, op = op_wanted_;
  for (; !order_.empty(); order_.pop_back()) {
    ActivationOffloadAndReloadState* transfer = order_.back();
    if (transfer && transfer->state == State::stashed && transfer->op != op_wanted_) return;
    if (!transfer || transfer->state != State::offloaded) continue;
    if (std::exchange(op, transfer->op) != transfer->op && ++ahead > settings_.compatibility.prefetch_ops) return;
    start_reloads(std::span(&transfer, 1));
  }
}

void ActivationReloadScheduler::prefetch() {
  if (cache_.has_disk()) read_ahead();
  if (!settings_.compatibility.learns && !by_blocks()) {
    if (settings_.compatibility.prefetch_ops > 0) prefetch_next_op();
    return;
  }
  if (settings_.compatibility.learns && !learned_.learned()) return;
  if (!by_blocks() && settings_.prefetch_bytes == 0) return;
  std::vector<ActivationOffloadAndReloadState*> next;
  int64_t bytes = 0;
  const auto start = [&] {
    start_reloads(std::exchange(next, {}));
    bytes = 0;
  };
  for (; !order_.empty(); order_.pop_back()) {
    ActivationOffloadAndReloadState* transfer = order_.back();
    if (!transfer) continue;
    if (transfer->state == State::offloaded) {
      // A batch is no larger than the bytes already prefetched ahead of it. Otherwise backward would need its first
      // value before the whole batch has arrived.
      if (!next.empty() && bytes + transfer->bytes > std::min(batch_bytes_, prefetched_bytes_)) start();
      if (!room_for(*transfer, bytes)) break;
      if (settings_.compatibility.learns) learned_.hold_until_wanted(transfer->number, transfer->bytes);
      next.push_back(transfer);
      bytes += transfer->bytes;
      if (transfer->on_disk) start();
    }
    if (transfer->state == State::reloading && !copy_back(*transfer, /*may_block=*/false)) break;
  }
  if (!next.empty()) start();
}

void ActivationReloadScheduler::read_ahead() {
  for (to_read_ = std::min(to_read_, order_.size()); to_read_ > 0; --to_read_) {
    const ActivationOffloadAndReloadState* transfer = order_[to_read_ - 1];
    if (!transfer || !transfer->on_disk) continue;
    for (size_t i = transfer->pieces_back; i < transfer->pieces.size(); ++i)
      if (!cache_.read_ahead(transfer->pieces[i])) return;
  }
}

void ActivationReloadScheduler::forget(ActivationOffloadAndReloadState& transfer) {
  if (transfer.number < order_.size() && order_[transfer.number] == &transfer) order_[transfer.number] = nullptr;
  if (transfer.state == State::reloading) prefetched_bytes_ -= transfer.bytes;
}

}  // namespace memtune::schedule
