#include "core/plan/planner/device_host_copy_simulator.h"

#include <algorithm>
#include <utility>

#include "core/base/bounds.h"

namespace memtune::planner {
namespace {

using schedule::ActivationOffloadAndReloadState;
using schedule::ActivationPieceCopyBatchEntry;
using schedule::CopyBatch;

int64_t bytes_of(const CopyBatch& batch) {
  int64_t bytes = 0;
  for (const ActivationPieceCopyBatchEntry& part : batch) bytes += part.piece->bytes;
  return bytes;
}

}  // namespace

int DeviceHostCopySimulator::start_offload(int block, int64_t bytes, int64_t held_bytes, bool on_disk, int op) {
  const int number = static_cast<int>(transfers_.size());
  Transfer& transfer = transfers_.emplace_back(bytes, on_disk, op);
  transfer.held_bytes = held_bytes;
  transfer.source = memory_.take(block);
  schedule_.start_offload(transfer);
  return number;
}

void DeviceHostCopySimulator::begin_unpack(const void* node) {
  schedule_.begin_unpack(node);
  learned_.begin_unpack(memory_.interval_peak());
  memory_.begin_interval();
}

int DeviceHostCopySimulator::reload(int number) {
  Transfer& transfer = transfers_[number];
  schedule_.reload(transfer);
  return transfer.source != kNone ? memory_.take(transfer.source) : std::exchange(transfer.target, kNone);
}

void DeviceHostCopySimulator::forget(int number) {
  Transfer& transfer = transfers_[number];
  schedule_.forget(transfer);
  if (transfer.state == ActivationOffloadAndReloadState::State::stashed) clock_.wait_until(transfer.out_done);
  if (transfer.state == ActivationOffloadAndReloadState::State::reloading) clock_.wait_until(transfer.in_done);
  memory_.drop(std::exchange(transfer.source, kNone));
  memory_.drop(std::exchange(transfer.target, kNone));
  for (const schedule::CachedPiecePtr& piece : transfer.pieces) tier_.drop(piece);
  transfer.state = ActivationOffloadAndReloadState::State::returned;
}

// --- what the schedule decides ---------------------------------------------------------------------------------------

// Returns when the copy ends.
double DeviceHostCopySimulator::copy(int64_t bytes, double after, double gb_per_s, double& free_at) {
  if (settings_.side_stream) return enqueue(bytes, after, gb_per_s, free_at);
  double alone = 0;
  clock_.wait_until(enqueue(bytes, after, gb_per_s, alone));
  return clock_.compute;
}

double DeviceHostCopySimulator::enqueue(int64_t bytes, double after, double gb_per_s, double& free_at) {
  const double ms = gb_per_s > 0 ? static_cast<double>(bytes) / (gb_per_s * 1e6) : 0;
  copy_ms_ += ms;
  clock_.host += link_.issue_ms;
  return free_at = std::max({free_at, clock_.next_start(), after}) + ms;
}

schedule::CachedPiecePtr DeviceHostCopySimulator::put(ActivationOffloadAndReloadState& transfer, int64_t bytes) {
  return tier_.put(bytes, transfer.on_disk);
}

void DeviceHostCopySimulator::copy_out(const CopyBatch& batch) {
  double after = 0;
  for (const ActivationPieceCopyBatchEntry& part : batch)
    after = std::max(after, SimulatedHostAndDiskTier::free_after(*part.piece));
  const int64_t bytes = bytes_of(batch);
  const double done = copy(bytes, after, link_.out_gb_per_s, out_free_);
  out_bytes_ = bounded_sum(out_bytes_, bytes);
  if (settings_.compatibility.host_waits) clock_.host_waits_until(done);
  for (const ActivationPieceCopyBatchEntry& part : batch) of(*part.transfer).out_done = done;
}

void DeviceHostCopySimulator::stored(const ActivationPieceCopyBatchEntry& part) {
  tier_.stored(part.piece, of(*part.transfer).out_done);
}

void DeviceHostCopySimulator::free_source(ActivationOffloadAndReloadState& transfer) {
  clock_.wait_until(of(transfer).out_done);
  memory_.drop(std::exchange(of(transfer).source, kNone));
}

void DeviceHostCopySimulator::begin_in(std::span<ActivationOffloadAndReloadState* const> transfers) {
  for (ActivationOffloadAndReloadState* transfer : transfers)
    of(*transfer).target = memory_.make(of(*transfer).held_bytes);
  memory_.update_peak();
}

void DeviceHostCopySimulator::copy_in(const CopyBatch& batch) {
  const int64_t bytes = bytes_of(batch);
  const double done = copy(bytes, 0, link_.in_gb_per_s, settings_.compatibility.one_stream ? out_free_ : in_free_);
  in_bytes_ = bounded_sum(in_bytes_, bytes);
  for (const ActivationPieceCopyBatchEntry& part : batch) of(*part.transfer).in_done = done;
}

void DeviceHostCopySimulator::drop(const ActivationPieceCopyBatchEntry& part) {
  tier_.drop(part.piece, of(*part.transfer).in_done);
}

void DeviceHostCopySimulator::wait_in(ActivationOffloadAndReloadState& transfer) {
  clock_.wait_until(of(transfer).in_done);
}

}  // namespace memtune::planner
