#include "core/engine/offload/activation_offload_engine.h"

#include <c10/core/Allocator.h>

#include <utility>

#include "core/base/device/torch/torch_device.h"

namespace memtune::offload {
namespace {

using device::CopyDirection;
using device::StreamKind;
using schedule::ActivationOffloadAndReloadState;
using schedule::ActivationPieceCopyBatchEntry;
using schedule::CopyBatch;
using Copies = std::vector<device::Device::Copy>;

at::Storage new_storage(const device::Device& device, int64_t bytes) {
  c10::Allocator* allocator = c10::GetAllocator(device::torch_device(device).type());
  const auto size = static_cast<size_t>(bytes);
  return {at::Storage::use_byte_size_t(), size, allocator->allocate(size), allocator, /*resizable=*/true};
}

}  // namespace

ActivationOffloadEngine::ActivationOffloadEngine(device::Device& device, const plan::TransferSettings& settings,
                                                 tier::DiskSpillingActivationHostTier& tier, int64_t batch_bytes)
    : device_(device),
      settings_(settings),
      out_(settings.side_stream ? StreamKind::out : StreamKind::compute),
      in_(!settings.side_stream               ? StreamKind::compute
          : settings.compatibility.one_stream ? StreamKind::out
                                              : StreamKind::in),
      tier_(tier),
      schedule_(settings_, learned_, tier.cache(), *this, batch_bytes),
      waits_(device) {}

// Pending copies must end before their host memory is freed.
ActivationOffloadEngine::~ActivationOffloadEngine() { device_.synchronize_quietly(); }

void ActivationOffloadEngine::begin_step() {
  schedule_.begin_step();
  waits_.clear();
  counters_ = {};
  tier_.begin_step();
}

void ActivationOffloadEngine::begin_learning() {
  if (settings_.compatibility.learns) learned_.begin_learning();
}

void ActivationOffloadEngine::end_learning(int64_t forward_peak) {
  if (learned_.learning()) learned_.end_learning(forward_peak, device_.memory().peak_allocated);
}

void ActivationOffloadEngine::begin_unpack(const void* node) {
  schedule_.begin_unpack(node);
  if (!learned_.learning()) return learned_.begin_unpack();
  learned_.begin_unpack(device_.memory().peak_allocated);
  device_.reset_peak();
}

void ActivationOffloadEngine::start_offload(autograd::SavedStorage& value, int op) {
  at::Storage source = value.live_storage();
  if (!schedule_.takes(value.size_bytes())) return value.hold(std::move(source));
  auto transfer = std::make_shared<OffloadRoundTrip>(*this, value, std::move(source), op);
  OffloadRoundTrip& started = *transfer;
  value.start_offload(std::move(transfer));
  schedule_.start_offload(started);
}

at::Storage OffloadRoundTrip::reload() { return offload_.reload(*this); }

void OffloadRoundTrip::before_overwrite() { offload_.before_overwrite(*this); }

OffloadRoundTrip::~OffloadRoundTrip() { offload_.forget(*this); }

// A source that is still on the device is used there; while the copy out runs, the transfer owns it too.
at::Storage ActivationOffloadEngine::reload(OffloadRoundTrip& transfer) {
  schedule_.reload(transfer);
  return transfer.source_ ? transfer.source_ : std::move(transfer.target_);
}

// Freed memory must not be touched: the compute stream, which reuses it, waits for copies in flight.
void ActivationOffloadEngine::forget(OffloadRoundTrip& transfer) noexcept {
  schedule_.forget(transfer);
  if (transfer.source_ && transfer.out_done_) device_.wait_quietly(StreamKind::compute, transfer.out_done_);
  if (transfer.target_ && transfer.in_done_) device_.wait_quietly(StreamKind::compute, transfer.in_done_);
  for (const schedule::CachedPiecePtr& piece : transfer.pieces) tier_.drop(tier::tier_piece(piece));
}

// --- what the schedule decides ---------------------------------------------------------------------------------------

namespace {

OffloadRoundTrip& of(ActivationOffloadAndReloadState& transfer) { return static_cast<OffloadRoundTrip&>(transfer); }

}  // namespace

// Records one event after all copies. While tracing, each copy is a call of its own, because the profiler identifies
// copies by call. Copies of unpinned memory are issued one by one too, because the driver stages them.
device::EventPtr ActivationOffloadEngine::enqueue(const CopyBatch& batch, const Copies& copies, CopyDirection direction,
                                                  StreamKind stream) try {
  if (!recorder_ && settings_.pinned) {
    device_.copy_batch(copies, direction, stream);
    return device_.record(stream);
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    const auto& [to, from, bytes] = copies[i];
    const trace::ActivationCopyTagScope recording(recorder_, of(*batch[i].transfer).key_);
    device_.copy(to, from, bytes, direction, stream);
  }
  return device_.record(stream);
} catch (...) {
  device_.synchronize_quietly();  // the issued copies have no event that the owner of their memory could wait for
  throw;
}

void ActivationOffloadEngine::compute_waits(const device::EventPtr& event) {
  device::ComputeStreamScopeTimeAccumulator::Lap lap(waits_);
  device_.wait(StreamKind::compute, event);
}

void ActivationOffloadEngine::begin_out() {
  if (settings_.side_stream) device_.wait(StreamKind::out, device_.record(StreamKind::compute));
}

schedule::CachedPiecePtr ActivationOffloadEngine::put(ActivationOffloadAndReloadState& transfer, int64_t bytes) {
  tier::HostTierPiecePtr piece = tier_.put(bytes, transfer.on_disk);
  piece->value = of(transfer).key_;
  return piece;
}

void ActivationOffloadEngine::copy_out(const CopyBatch& batch) {
  Copies copies;
  for (const ActivationPieceCopyBatchEntry& part : batch) {
    const tier::HostTierPiecePtr piece = tier::tier_piece(part.piece);
    for (const auto& event : piece->lease.free_after()) device_.wait(out_, event);
    const auto* from = static_cast<const char*>(of(*part.transfer).source_.data()) + part.begin;
    copies.push_back({piece->lease.data(), from, piece->bytes});
  }
  const device::EventPtr done = enqueue(batch, copies, CopyDirection::to_host, out_);
  if (settings_.compatibility.host_waits) done->synchronize();
  for (const ActivationPieceCopyBatchEntry& part : batch) of(*part.transfer).out_done_ = done;
}

void ActivationOffloadEngine::stored(const ActivationPieceCopyBatchEntry& part) {
  counters_.out_bytes += part.piece->bytes;
  tier_.stored(tier::tier_piece(part.piece), of(*part.transfer).out_done_);
}

void ActivationOffloadEngine::free_source(ActivationOffloadAndReloadState& transfer) {
  const device::EventPtr& done = of(transfer).out_done_;
  if (done != seen_done_ && done->done()) seen_done_ = done;
  if (done != seen_done_) compute_waits(done);
  of(transfer).source_ = at::Storage();
}

void ActivationOffloadEngine::begin_in(std::span<ActivationOffloadAndReloadState* const> transfers) {
  for (ActivationOffloadAndReloadState* transfer : transfers)
    if (!of(*transfer).target_) of(*transfer).target_ = new_storage(device_, transfer->bytes);
  // The new memory may have been freed by work that compute has not reached yet. The copy out ended before that work,
  // because compute waited for it before the source was freed.
  if (settings_.side_stream) device_.wait(in_, device_.record(StreamKind::compute));
}

void ActivationOffloadEngine::copy_in(const CopyBatch& batch) {
  Copies copies;
  for (const ActivationPieceCopyBatchEntry& part : batch) {
    char* to = static_cast<char*>(of(*part.transfer).target_.mutable_data()) + part.begin;
    copies.push_back({to, tier::tier_piece(part.piece)->lease.data(), part.piece->bytes});
  }
  const device::EventPtr done = enqueue(batch, copies, CopyDirection::to_device, in_);
  for (const ActivationPieceCopyBatchEntry& part : batch) of(*part.transfer).in_done_ = done;
}

void ActivationOffloadEngine::drop(const ActivationPieceCopyBatchEntry& part) {
  counters_.in_bytes += part.piece->bytes;
  tier_.drop(tier::tier_piece(part.piece), of(*part.transfer).in_done_);
}

void ActivationOffloadEngine::wait_in(ActivationOffloadAndReloadState& transfer) {
  compute_waits(of(transfer).in_done_);
}

}  // namespace memtune::offload
