#include "core/planner/copy_queue.h"

#include <algorithm>
#include <utility>

namespace memtune::planner {
namespace {

constexpr int kNone = StepMemory::kNone;
constexpr int64_t kBatchBytes = 8 << 20;  // as core/offload's
constexpr int64_t kDiskPieceBytes = 4 << 20;

}  // namespace

double CopyQueue::copy(const Batch& batch, double gb_per_s, double& free_at) {
  const double ms = gb_per_s > 0 ? static_cast<double>(batch.bytes) / (gb_per_s * 1e6) : 0;
  copy_ms_ += ms;
  if (!settings_.side_stream) {
    clock_.wait_until(std::max(clock_.compute, batch.after) + ms);
    return clock_.compute;
  }
  return free_at = std::max({free_at, clock_.compute, batch.after}) + ms;
}

// --- out -------------------------------------------------------------------------------------------------------------

int CopyQueue::send(int block, int64_t bytes, int64_t held_bytes, bool on_disk) {
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

bool CopyQueue::gathers_more() const {
  if (!learned() || !settings_.side_stream || transfers_[gathered_.back()].on_disk) return false;
  if (gathered_bytes_ >= std::min(kBatchBytes, settings_.stash_bytes / 4)) return false;
  return memory_.allocated() + op_bytes_ + 2 * kBatchBytes <= schedule_.goal_bytes();
}

void CopyQueue::end_block() {
  start_gathered();
  ++group_;
  if (by_blocks())
    retire([this](const Transfer& transfer) { return transfer.group >= group_ - settings_.groups_in_flight; });
}

void CopyQueue::start_gathered() {
  const std::vector<int> gathered = std::exchange(gathered_, {});
  gathered_bytes_ = 0;
  for (size_t begin = 0, end = 0; begin < gathered.size(); begin = end) {
    int64_t bytes = 0;
    do bytes += transfers_[gathered[end++]].bytes;
    while (end < gathered.size() && bytes + transfers_[gathered[end]].bytes <= kBatchBytes);
    start_out(std::span(gathered).subspan(begin, end - begin));
  }
}

void CopyQueue::start_out(std::span<const int> numbers) {
  Batch batch;
  for (const int number : numbers) put(number, batch);
  copy_out(batch);
}

void CopyQueue::put(int number, Batch& batch) {
  const Transfer& transfer = transfers_[number];
  const int64_t piece_bytes = transfer.on_disk ? kDiskPieceBytes : transfer.bytes;
  for (int64_t offset = 0; offset < transfer.bytes; offset += piece_bytes) {
    const int64_t bytes = std::min(piece_bytes, transfer.bytes - offset);
    const int piece = tier_.put(bytes, transfer.on_disk);
    batch.bytes += bytes;
    batch.after = std::max(batch.after, tier_.free_after(piece));
    batch.parts.push_back({number, piece, offset + bytes == transfer.bytes});
    if (transfer.on_disk) copy_out(batch);
  }
}

void CopyQueue::copy_out(Batch& batch) {
  if (batch.parts.empty()) return;
  const double done = copy(batch, link_.out_gb_per_s, out_free_);
  out_bytes_ += batch.bytes;
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

void CopyQueue::leave_gathered(int number) {
  if (std::erase(gathered_, number) > 0) gathered_bytes_ -= transfers_[number].bytes;
}

int64_t CopyQueue::stash_limit() const {
  return learned() ? settings_.stash_bytes : std::min(settings_.stash_bytes, 2 * largest_bytes_);
}

template <typename MayStay>
void CopyQueue::retire(const MayStay& may_stay) {
  while (!stash_.empty()) {
    Transfer& oldest = transfers_[stash_.front()];
    const bool ended = clock_.ended(oldest.out_done);
    if (!ended && may_stay(oldest)) return;
    stash_.pop_front();
    if (!ended) clock_.wait_until(oldest.out_done);
    leave_device(oldest);
  }
}

void CopyQueue::unstash(int number) {
  std::erase(stash_, number);
  clock_.wait_until(transfers_[number].out_done);
  leave_device(transfers_[number]);
}

void CopyQueue::leave_device(Transfer& transfer) {
  memory_.drop(std::exchange(transfer.source, kNone));
  transfer.state = State::away;
  stash_bytes_ -= transfer.bytes;
}

void CopyQueue::make_room(int64_t bytes) {
  op_bytes_ = bytes;
  if (!learned() || (stash_.empty() && gathered_.empty())) return;
  const auto fits = [&] { return memory_.allocated() + bytes <= schedule_.goal_bytes(); };
  if (fits()) return;
  if (!by_blocks()) start_gathered();
  retire([&](const Transfer&) { return fits(); });
}

void CopyQueue::before_overwrite(int number) {
  if (transfers_[number].state == State::gathered) {
    leave_gathered(number);
    start_out(std::span(&number, 1));
  }
  if (transfers_[number].state == State::stashed) unstash(number);
}

void CopyQueue::flush() {
  end_block();
  retire([](const Transfer&) { return false; });
}

void CopyQueue::begin_head() {
  if (!learned()) flush();
}

void CopyQueue::end_forward() {
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

// --- back ------------------------------------------------------------------------------------------------------------

void CopyQueue::begin_unpack() {
  schedule_.begin_unpack(memory_.stretch_peak());
  memory_.begin_stretch();
}

int CopyQueue::bring_back(int number) {
  Transfer& transfer = transfers_[number];
  group_wanted_ = transfer.group;
  schedule_.ask(number);
  if (transfer.source != kNone) return memory_.take(transfer.source);
  if (transfer.state == State::away) start_back(std::span(&number, 1));
  copy_back(number, /*may_block=*/true);
  clock_.wait_until(transfer.in_done);
  ahead_bytes_ -= transfer.bytes;
  transfer.state = State::returned;
  return std::exchange(transfer.target, kNone);
}

void CopyQueue::start_back(std::span<const int> numbers) {
  for (const int number : numbers) transfers_[number].target = memory_.make(transfers_[number].held_bytes);
  memory_.reach();
  Batch batch;
  for (const int number : numbers) {
    Transfer& transfer = transfers_[number];
    transfer.state = State::coming_back;
    ahead_bytes_ += transfer.bytes;
    if (!transfer.on_disk) fetch(number, batch);
  }
  copy_in(batch);
}

void CopyQueue::fetch(int number, Batch& batch) {
  const Transfer& transfer = transfers_[number];
  const size_t at = transfer.pieces_back;
  const int64_t before = static_cast<int64_t>(at) * kDiskPieceBytes;
  batch.bytes += transfer.on_disk ? std::min(kDiskPieceBytes, transfer.bytes - before) : transfer.bytes;
  tier_.fetch(transfer.pieces[at]);
  batch.parts.push_back({number, transfer.pieces[at], at + 1 == transfer.pieces.size()});
}

void CopyQueue::copy_in(Batch& batch) {
  if (batch.parts.empty()) return;
  const double done = copy(batch, link_.in_gb_per_s, in_free_);
  in_bytes_ += batch.bytes;
  for (const auto& [number, piece, last] : batch.parts) {
    transfers_[number].in_done = done;
    ++transfers_[number].pieces_back;
    tier_.drop(piece, done);
  }
  batch = {};
}

bool CopyQueue::copy_back(int number, bool may_block) {
  const Transfer& transfer = transfers_[number];
  while (!transfer.all_back()) {
    if (!may_block && !tier_.ready(transfer.pieces[transfer.pieces_back])) return false;
    Batch batch;
    fetch(number, batch);
    copy_in(batch);
    read_ahead();
  }
  return true;
}

void CopyQueue::read_ahead() {
  for (to_read_ = std::min(to_read_, order_.size()); to_read_ > 0; --to_read_) {
    const int number = order_[to_read_ - 1];
    if (number == kNone || !transfers_[number].on_disk) continue;
    const Transfer& transfer = transfers_[number];
    for (size_t i = transfer.pieces_back; i < transfer.pieces.size(); ++i)
      if (!tier_.read_ahead(transfer.pieces[i])) return;
  }
}

bool CopyQueue::room_for(int number, int64_t pending_bytes) {
  const Transfer& transfer = transfers_[number];
  if (learned()) {
    if (!schedule_.fits_until_wanted(number, transfer.bytes)) return false;
  } else {
    if (ceiling_ == 0) ceiling_ = memory_.peak();
    if (memory_.allocated() + pending_bytes + transfer.bytes > ceiling_) return false;
  }
  if (by_blocks()) return transfer.group >= group_wanted_ - settings_.prefetch_blocks;
  const int64_t ahead = ahead_bytes_ + pending_bytes;
  return ahead == 0 || ahead + transfer.bytes <= settings_.prefetch_bytes;
}

void CopyQueue::prefetch() {
  if (tier_.has_disk()) read_ahead();
  if (schedule_.learning() || (!by_blocks() && settings_.prefetch_bytes == 0)) return;
  std::vector<int> next;
  int64_t bytes = 0;
  const auto start = [&] {
    start_back(std::exchange(next, {}));
    bytes = 0;
  };
  for (; !order_.empty(); order_.pop_back()) {
    const int number = order_.back();
    if (number == kNone) continue;
    const Transfer& transfer = transfers_[number];
    if (transfer.state == State::away) {
      if (!next.empty() && bytes + transfer.bytes > std::min(kBatchBytes, ahead_bytes_)) start();
      if (!room_for(number, bytes)) break;
      if (learned()) schedule_.hold_until_wanted(number, transfer.bytes);
      next.push_back(number);
      bytes += transfer.bytes;
      if (transfer.on_disk) start();
    }
    if (transfer.state == State::coming_back && !copy_back(number, /*may_block=*/false)) break;
  }
  if (!next.empty()) start();
}

void CopyQueue::forget(int number) {
  Transfer& transfer = transfers_[number];
  if (static_cast<size_t>(number) < order_.size()) order_[number] = kNone;
  if (transfer.state == State::gathered) leave_gathered(number);
  if (transfer.state == State::stashed) {
    std::erase(stash_, number);
    stash_bytes_ -= transfer.bytes;
    clock_.wait_until(transfer.out_done);
  }
  if (transfer.state == State::coming_back) {
    clock_.wait_until(transfer.in_done);
    ahead_bytes_ -= transfer.bytes;
  }
  memory_.drop(std::exchange(transfer.source, kNone));
  memory_.drop(std::exchange(transfer.target, kNone));
  for (const int piece : transfer.pieces) tier_.drop(piece);
  transfer.state = State::returned;
}

}  // namespace memtune::planner
