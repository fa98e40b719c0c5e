#include "core/plan/planner/transfer_simulator.h"

#include <algorithm>
#include <utility>

#include "core/base/bounds.h"
#include "core/plan/schedule/copy_sizes.h"

namespace memtune::planner {
double TransferSimulator::copy(const Batch& batch, double gb_per_s, double& free_at) {
  const double ms = gb_per_s > 0 ? static_cast<double>(batch.bytes) / (gb_per_s * 1e6) : 0;
  copy_ms_ += ms;
  if (!settings_.side_stream) {
    clock_.wait_until(std::max(clock_.compute, batch.after) + ms);
    return clock_.compute;
  }
  return free_at = std::max({free_at, clock_.compute, batch.after}) + ms;
}

int TransferSimulator::start_offload(int block, int64_t bytes, int64_t held_bytes, bool on_disk) {
  const int number = static_cast<int>(order_.size());
  transfers_.push_back({.bytes = bytes, .held_bytes = held_bytes, .on_disk = on_disk, .group = group_});
  transfers_[number].source = memory_.take(block);
  order_.push_back(number);
  to_read_ = order_.size();
  gathered_.push_back(number);
  gathered_bytes_ += bytes;
  largest_bytes_ = std::max(largest_bytes_, bytes);
  if (by_blocks() || gathers_more()) return number;
  start_gathered();
  retire([this](const Transfer&) { return settings_.side_stream && stash_bytes_ <= stash_limit(); });
  return number;
}

bool TransferSimulator::gathers_more() const {
  if (!learned() || !settings_.side_stream || transfers_[gathered_.back()].on_disk) return false;
  if (gathered_bytes_ >= std::min(schedule::kBatchBytes, settings_.stash_bytes / 4)) return false;
  return memory_.allocated() + op_bytes_ + 2 * schedule::kBatchBytes <= schedule_.goal_bytes();
}

void TransferSimulator::end_block() {
  start_gathered();
  ++group_;
  if (by_blocks())
    retire([this](const Transfer& transfer) { return transfer.group >= group_ - settings_.groups_in_flight; });
}

void TransferSimulator::start_gathered() {
  const std::vector<int> gathered = std::exchange(gathered_, {});
  gathered_bytes_ = 0;
  for (size_t begin = 0, end = 0; begin < gathered.size(); begin = end) {
    int64_t bytes = 0;
    do bytes += transfers_[gathered[end++]].bytes;
    while (end < gathered.size() && bytes + transfers_[gathered[end]].bytes <= schedule::kBatchBytes);
    start_out(std::span(gathered).subspan(begin, end - begin));
  }
}

void TransferSimulator::start_out(std::span<const int> numbers) {
  Batch batch;
  for (const int number : numbers) put(number, batch);
  copy_out(batch);
}

void TransferSimulator::put(int number, Batch& batch) {
  const Transfer& transfer = transfers_[number];
  const int64_t piece_bytes = transfer.on_disk ? schedule::kDiskPieceBytes : transfer.bytes;
  for (int64_t offset = 0; offset < transfer.bytes; offset += piece_bytes) {
    const int64_t bytes = std::min(piece_bytes, transfer.bytes - offset);
    const schedule::CachedPiecePtr piece = tier_.put(bytes, transfer.on_disk);
    batch.bytes += bytes;
    batch.after = std::max(batch.after, SimulatedHostTier::free_after(*piece));
    batch.parts.push_back({number, piece, offset + bytes == transfer.bytes});
    if (transfer.on_disk) copy_out(batch);
  }
}

void TransferSimulator::copy_out(Batch& batch) {
  if (batch.parts.empty()) return;
  const double done = copy(batch, link_.out_gb_per_s, out_free_);
  out_bytes_ = bounded_sum(out_bytes_, batch.bytes);
  for (const auto& [number, piece, last] : batch.parts) {
    Transfer& transfer = transfers_[number];
    transfer.out_done = done;
    transfer.pieces.push_back(piece);
    tier_.stored(piece, done);
    if (!last) continue;
    transfer.state = State::stashed;
    stash_.push_back(number);
    stash_bytes_ += transfer.bytes;
  }
  batch = {};
}

void TransferSimulator::leave_gathered(int number) {
  if (std::erase(gathered_, number) > 0) gathered_bytes_ -= transfers_[number].bytes;
}

int64_t TransferSimulator::stash_limit() const {
  return learned() ? settings_.stash_bytes : std::min(settings_.stash_bytes, 2 * largest_bytes_);
}

template <typename MayStay>
void TransferSimulator::retire(const MayStay& may_stay) {
  while (!stash_.empty() && !may_stay(transfers_[stash_.front()])) {
    Transfer& oldest = transfers_[stash_.front()];
    stash_.pop_front();
    clock_.wait_until(oldest.out_done);
    leave_device(oldest);
  }
}

void TransferSimulator::unstash(int number) {
  std::erase(stash_, number);
  clock_.wait_until(transfers_[number].out_done);
  leave_device(transfers_[number]);
}

void TransferSimulator::leave_device(Transfer& transfer) {
  memory_.drop(std::exchange(transfer.source, kNone));
  transfer.state = State::offloaded;
  stash_bytes_ -= transfer.bytes;
}

void TransferSimulator::make_room(int64_t bytes) {
  op_bytes_ = bytes;
  if (!learned() || (stash_.empty() && gathered_.empty())) return;
  const auto fits = [&] { return memory_.allocated() + bytes <= schedule_.goal_bytes(); };
  if (fits()) return;
  if (!by_blocks()) start_gathered();
  retire([&](const Transfer&) { return fits(); });
}

void TransferSimulator::before_overwrite(int number) {
  if (transfers_[number].state == State::gathered) {
    leave_gathered(number);
    start_out(std::span(&number, 1));
  }
  if (transfers_[number].state == State::stashed) unstash(number);
}

void TransferSimulator::flush() {
  end_block();
  retire([](const Transfer&) { return false; });
}

void TransferSimulator::begin_head() {
  if (!learned()) flush();
}

void TransferSimulator::end_forward() {
  if (!learned()) return flush();
  end_block();
  std::deque<int> stash = std::exchange(stash_, {});
  for (; !stash.empty(); stash.pop_back()) {
    const int newest = stash.back();
    if (schedule_.fits_until_wanted(newest, transfers_[newest].bytes)) {
      schedule_.hold_until_wanted(newest, transfers_[newest].bytes);
      stash_.push_front(newest);
    } else {
      unstash(newest);
    }
  }
}

}  // namespace memtune::planner
