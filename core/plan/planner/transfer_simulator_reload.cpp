// Reloads of TransferSimulator; offloads are in copy_queue.cpp.
#include <algorithm>
#include <utility>

#include "core/base/bounds.h"
#include "core/plan/planner/transfer_simulator.h"
#include "core/plan/schedule/copy_sizes.h"

namespace memtune::planner {

void TransferSimulator::begin_unpack() {
  schedule_.begin_unpack(memory_.interval_peak());
  memory_.begin_interval();
}

int TransferSimulator::reload(int number) {
  Transfer& transfer = transfers_[number];
  group_wanted_ = transfer.group;
  schedule_.ask(number);
  if (transfer.source != kNone) return memory_.take(transfer.source);
  if (transfer.state == State::offloaded) start_reloads(std::span(&number, 1));
  copy_back(number, /*may_block=*/true);
  clock_.wait_until(transfer.in_done);
  prefetched_bytes_ -= transfer.bytes;
  transfer.state = State::returned;
  return std::exchange(transfer.target, kNone);
}

void TransferSimulator::start_reloads(std::span<const int> numbers) {
  for (const int number : numbers) transfers_[number].target = memory_.make(transfers_[number].held_bytes);
  memory_.update_peak();
  Batch batch;
  for (const int number : numbers) {
    Transfer& transfer = transfers_[number];
    transfer.state = State::reloading;
    prefetched_bytes_ += transfer.bytes;
    if (!transfer.on_disk) fetch(number, batch);
  }
  copy_in(batch);
}

void TransferSimulator::fetch(int number, Batch& batch) {
  const Transfer& transfer = transfers_[number];
  const size_t at = transfer.pieces_back;
  const int64_t before = static_cast<int64_t>(at) * schedule::kDiskPieceBytes;
  batch.bytes += transfer.on_disk ? std::min(schedule::kDiskPieceBytes, transfer.bytes - before) : transfer.bytes;
  tier_.cache().fetch(*transfer.pieces[at]);
  batch.parts.push_back({number, transfer.pieces[at], at + 1 == transfer.pieces.size()});
}

void TransferSimulator::copy_in(Batch& batch) {
  if (batch.parts.empty()) return;
  const double done = copy(batch, link_.in_gb_per_s, in_free_);
  in_bytes_ = bounded_sum(in_bytes_, batch.bytes);
  for (const auto& [number, piece, last] : batch.parts) {
    transfers_[number].in_done = done;
    ++transfers_[number].pieces_back;
    tier_.drop(piece, done);
  }
  batch = {};
}

bool TransferSimulator::copy_back(int number, bool may_block) {
  const Transfer& transfer = transfers_[number];
  while (!transfer.all_back()) {
    if (!may_block && !tier_.cache().ready(*transfer.pieces[transfer.pieces_back])) return false;
    Batch batch;
    fetch(number, batch);
    copy_in(batch);
    read_ahead();
  }
  return true;
}

void TransferSimulator::read_ahead() {
  for (to_read_ = std::min(to_read_, order_.size()); to_read_ > 0; --to_read_) {
    const int number = order_[to_read_ - 1];
    if (number == kNone || !transfers_[number].on_disk) continue;
    const Transfer& transfer = transfers_[number];
    for (size_t i = transfer.pieces_back; i < transfer.pieces.size(); ++i)
      if (!tier_.cache().read_ahead(transfer.pieces[i])) return;
  }
}

bool TransferSimulator::room_for(int number, int64_t pending_bytes) {
  const Transfer& transfer = transfers_[number];
  if (!schedule_.fits_until_wanted(number, transfer.bytes)) return false;
  if (by_blocks()) return transfer.group >= group_wanted_ - settings_.prefetch_blocks;
  const int64_t ahead = prefetched_bytes_ + pending_bytes;
  return ahead == 0 || ahead + transfer.bytes <= settings_.prefetch_bytes;
}

void TransferSimulator::prefetch() {
  if (tier_.cache().has_disk()) read_ahead();
  if (!learned() || (!by_blocks() && settings_.prefetch_bytes == 0)) return;
  std::vector<int> next;
  int64_t bytes = 0;
  const auto start = [&] {
    start_reloads(std::exchange(next, {}));
    bytes = 0;
  };
  for (; !order_.empty(); order_.pop_back()) {
    const int number = order_.back();
    if (number == kNone) continue;
    const Transfer& transfer = transfers_[number];
    if (transfer.state == State::offloaded) {
      if (!next.empty() && bytes + transfer.bytes > std::min(schedule::kBatchBytes, prefetched_bytes_)) start();
      if (!room_for(number, bytes)) break;
      schedule_.hold_until_wanted(number, transfer.bytes);
      next.push_back(number);
      bytes += transfer.bytes;
      if (transfer.on_disk) start();
    }
    if (transfer.state == State::reloading && !copy_back(number, /*may_block=*/false)) break;
  }
  if (!next.empty()) start();
}

void TransferSimulator::forget(int number) {
  Transfer& transfer = transfers_[number];
  if (static_cast<size_t>(number) < order_.size()) order_[number] = kNone;
  if (transfer.state == State::gathered) leave_gathered(number);
  if (transfer.state == State::stashed) {
    std::erase(stash_, number);
    stash_bytes_ -= transfer.bytes;
    clock_.wait_until(transfer.out_done);
  }
  if (transfer.state == State::reloading) {
    clock_.wait_until(transfer.in_done);
    prefetched_bytes_ -= transfer.bytes;
  }
  memory_.drop(std::exchange(transfer.source, kNone));
  memory_.drop(std::exchange(transfer.target, kNone));
  for (const auto& piece : transfer.pieces) tier_.drop(piece);
  transfer.state = State::returned;
}

}  // namespace memtune::planner
