#include "core/plan/schedule/copy_out_and_device_release_scheduler.h"

#include <algorithm>
#include <utility>

namespace memtune::schedule {

using State = ActivationOffloadAndReloadState::State;

void CopyOutAndDeviceReleaseScheduler::begin_step() {
  group_ = 0;
  saves_ = 0;
  gathered_bytes_ = 0;
  gathered_.clear();
}

void CopyOutAndDeviceReleaseScheduler::add(ActivationOffloadAndReloadState& transfer) {
  if (!settings_.compatibility.counts_all) ++saves_;
  transfer.group = group_;
  transfer.save = saves_;
  gathered_.push_back(&transfer);
  gathered_bytes_ += transfer.bytes;
  largest_bytes_ = std::max(largest_bytes_, transfer.bytes);
  if (by_blocks() || gathers_more()) return;
  if (settings_.compatibility.stash_saves > 0) {
    const int64_t oldest = saves_ - settings_.compatibility.stash_saves;
    retire([oldest](const ActivationOffloadAndReloadState& other) { return other.save > oldest; });
    return start_gathered();
  }
  start_gathered();
  // On the compute stream, the copy is done before any later work can reuse the memory.
  retire([this](const ActivationOffloadAndReloadState&) {
    return settings_.side_stream && stash_bytes_ <= stash_limit();
  });
}

// True if a small value may wait for more, because allocated memory is far below the learned peak.
bool CopyOutAndDeviceReleaseScheduler::gathers_more() const {
  if (!learned_.learned() || !settings_.side_stream || gathered_.back()->on_disk) return false;
  if (gathered_bytes_ >= std::min(batch_bytes_, settings_.stash_bytes / 4)) return false;
  return device_.allocated_bytes() + op_bytes_ + 2 * batch_bytes_ <= learned_.goal_bytes();
}

void CopyOutAndDeviceReleaseScheduler::end_block() {
  start_gathered();
  ++group_;
  if (by_blocks())
    retire([this](const ActivationOffloadAndReloadState& other) {
      return other.group >= group_ - settings_.groups_in_flight;
    });
}

void CopyOutAndDeviceReleaseScheduler::start_gathered() {
  const std::vector<ActivationOffloadAndReloadState*> gathered = std::exchange(gathered_, {});
  gathered_bytes_ = 0;
  for (size_t begin = 0, end = 0; begin < gathered.size(); begin = end) {
    int64_t bytes = 0;
    do bytes += gathered[end++]->bytes;
    while (end < gathered.size() && bytes + gathered[end]->bytes <= batch_bytes_);
    start_out(std::span(gathered).subspan(begin, end - begin));
  }
}

void CopyOutAndDeviceReleaseScheduler::leave_gathered(ActivationOffloadAndReloadState& transfer) {
  if (std::erase(gathered_, &transfer) > 0) gathered_bytes_ -= transfer.bytes;
}

void CopyOutAndDeviceReleaseScheduler::start_out(std::span<ActivationOffloadAndReloadState* const> transfers) {
  device_.begin_out();
  CopyBatch batch;
  for (ActivationOffloadAndReloadState* transfer : transfers) put(*transfer, batch);
  copy_out(batch);
}

// If the tier has no room this throws. The transfer keeps its source and can continue from its last piece.
void CopyOutAndDeviceReleaseScheduler::put(ActivationOffloadAndReloadState& transfer, CopyBatch& batch) {
  for (int64_t begin = transfer.begin(transfer.pieces.size()); begin < transfer.bytes;
       begin += transfer.piece_bytes()) {
    const int64_t bytes = std::min(transfer.piece_bytes(), transfer.bytes - begin);
    batch.push_back({&transfer, device_.put(transfer, bytes), begin});
    if (transfer.on_disk) copy_out(batch);  // frees room for the next piece
  }
}

void CopyOutAndDeviceReleaseScheduler::copy_out(CopyBatch& batch) {
  if (batch.empty()) return;
  device_.copy_out(batch);
  for (const ActivationPieceCopyBatchEntry& part : batch) {
    ActivationOffloadAndReloadState& transfer = *part.transfer;
    transfer.pieces.push_back(part.piece);
    device_.stored(part);
    if (!transfer.all_out()) continue;
    transfer.state = State::stashed;
    stash_.push_back(&transfer);
    stash_bytes_ += transfer.bytes;
  }
  batch.clear();
}

// Before learning, the stash is limited to two of the largest transfers. A larger stash could hold most of the
// offloaded bytes and save no memory. After learning, make_room() decides.
int64_t CopyOutAndDeviceReleaseScheduler::stash_limit() const {
  return learned_.learned() ? settings_.stash_bytes : std::min(settings_.stash_bytes, 2 * largest_bytes_);
}

// Frees sources, oldest first, until `may_stay` accepts one.
void CopyOutAndDeviceReleaseScheduler::retire(
    const std::function<bool(const ActivationOffloadAndReloadState&)>& may_stay) {
  while (!stash_.empty() && !may_stay(*stash_.front())) {
    ActivationOffloadAndReloadState& oldest = *stash_.front();
    stash_.pop_front();
    leave_device(oldest);
  }
}

void CopyOutAndDeviceReleaseScheduler::evict_all() {
  retire([](const ActivationOffloadAndReloadState&) { return false; });
}

void CopyOutAndDeviceReleaseScheduler::unstash(ActivationOffloadAndReloadState& transfer) {
  std::erase(stash_, &transfer);
  leave_device(transfer);
}

void CopyOutAndDeviceReleaseScheduler::leave_device(ActivationOffloadAndReloadState& transfer) {
  device_.free_source(transfer);
  transfer.state = State::offloaded;
  stash_bytes_ -= transfer.bytes;
}

void CopyOutAndDeviceReleaseScheduler::make_room(int64_t bytes) {
  op_bytes_ = bytes;
  if (!learned_.learned() || (stash_.empty() && gathered_.empty())) return;
  const auto fits = [&] { return device_.allocated_bytes() + bytes <= learned_.goal_bytes(); };
  if (fits()) return;
  if (!by_blocks()) start_gathered();
  retire([&](const ActivationOffloadAndReloadState&) { return fits(); });
}

void CopyOutAndDeviceReleaseScheduler::before_overwrite(ActivationOffloadAndReloadState& transfer) {
  if (transfer.state == State::gathered) {
    leave_gathered(transfer);
    ActivationOffloadAndReloadState* const one[] = {&transfer};
    start_out(one);
  }
  if (transfer.state == State::stashed) unstash(transfer);
}

void CopyOutAndDeviceReleaseScheduler::flush() {
  end_block();
  evict_all();
}

void CopyOutAndDeviceReleaseScheduler::begin_head() {
  if (!learned_.learned() && settings_.compatibility.stash_saves == 0) flush();
}

// A source that is still on the device stays if there is room until backward needs it. This saves both copies.
void CopyOutAndDeviceReleaseScheduler::end_forward() {
  if (settings_.compatibility.stash_saves > 0) return;
  if (!learned_.learned()) return flush();
  end_block();
  std::deque<ActivationOffloadAndReloadState*> stash = std::exchange(stash_, {});
  for (; !stash.empty(); stash.pop_back()) {
    ActivationOffloadAndReloadState& newest = *stash.back();
    if (learned_.fits_until_wanted(newest.number, newest.bytes)) {
      learned_.hold_until_wanted(newest.number, newest.bytes);
      stash_.push_front(&newest);
    } else {
      leave_device(newest);
    }
  }
}

void CopyOutAndDeviceReleaseScheduler::forget(ActivationOffloadAndReloadState& transfer) {
  if (transfer.state == State::gathered) leave_gathered(transfer);
  if (transfer.state == State::stashed) {
    std::erase(stash_, &transfer);
    stash_bytes_ -= transfer.bytes;
  }
}

}  // namespace memtune::schedule
