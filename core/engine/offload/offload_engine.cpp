#include "core/engine/offload/offload_engine.h"

#include <utility>

namespace memtune::offload {
namespace {

using device::CopyDirection;
using device::Stream;

}  // namespace

OffloadEngine::OffloadEngine(device::Device& device, const plan::TransferSettings& settings, tier::HostTier& tier,
                             int64_t batch_bytes)
    : device_(device),
      settings_(settings),
      batch_bytes_(batch_bytes),
      out_(settings.side_stream ? Stream::out : Stream::compute),
      in_(!settings.side_stream               ? Stream::compute
          : settings.compatibility.one_stream ? Stream::out
                                              : Stream::in),
      tier_(tier),
      waits_(device) {}

// Pending copies must end before their host memory is freed.
OffloadEngine::~OffloadEngine() { device_.synchronize_quietly(); }

void OffloadEngine::begin_step() {
  group_ = group_wanted_ = 0;
  groups_.clear();
  saves_ = 0;
  op_wanted_ = op_fetched_for_ = -1;
  node_ = node_served_ = nullptr;
  to_read_ = 0;
  gathered_bytes_ = 0;
  schedule_.begin_step();
  order_.clear();
  gathered_.clear();
  waits_.clear();
  counters_ = {};
  tier_.begin_step();
}

void OffloadEngine::Batch::add(OffloadTransfer& transfer, const device::Device::Copy& copy,
                               tier::HostTierPiecePtr piece) {
  copies.push_back(copy);
  parts.push_back({&transfer, std::move(piece)});
}

// Records one event after all copies. While tracing, each copy is a call of its own, because the profiler identifies
// copies by call. Copies of unpinned memory are issued one by one too, because the driver stages them.
device::EventPtr OffloadEngine::enqueue(const Batch& batch, CopyDirection direction, Stream stream) try {
  if (!recorder_ && settings_.pinned) {
    device_.copy_batch(batch.copies, direction, stream);
    return device_.record(stream);
  }
  for (size_t i = 0; i < batch.copies.size(); ++i) {
    const auto& [to, from, bytes] = batch.copies[i];
    const trace::CopyRecordScope recording(recorder_, batch.parts[i].transfer->key_);
    device_.copy(to, from, bytes, direction, stream);
  }
  return device_.record(stream);
} catch (...) {
  device_.synchronize_quietly();  // the issued copies have no event that the owner of their memory could wait for
  throw;
}

void OffloadEngine::compute_waits(const device::EventPtr& event) {
  device::StreamTimer::Lap lap(waits_);
  device_.wait(Stream::compute, event);
}

void OffloadEngine::begin_learning() {
  if (settings_.compatibility.learns) schedule_.begin_learning();
}

void OffloadEngine::end_learning(int64_t forward_peak) {
  if (schedule_.learning()) schedule_.end_learning(forward_peak, device_.memory().peak_allocated);
}

void OffloadEngine::begin_unpack(const void* node) {
  node_ = node;
  if (!schedule_.learning()) return schedule_.begin_unpack();
  schedule_.begin_unpack(device_.memory().peak_allocated);
  device_.reset_peak();
}

}  // namespace memtune::offload
