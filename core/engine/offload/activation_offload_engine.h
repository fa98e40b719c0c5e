// Offloads values to host memory and reloads them on side streams. OnlineActivationTransferScheduler decides when; this
// class allocates, copies and waits.
//
// Events order the copies. The host thread waits only where the host tier does. (On the CPU device the calling thread
// is the compute stream, so waiting for an event blocks.)
//
// One whole step is used for learning. It and the steps before it have a small stash and prefetch nothing. In later
// steps, sources stay on the device and copies are prefetched as long as the peak stays
// (LearnedMemoryHeadroomTimeline). Small values are then batched: one driver call and one event per batch, in both
// directions. With the compatibility flags of other engines (core/plan/strategy/plan.h) nothing is learned and values
// are copied one by one.
#pragma once

#include <span>
#include <vector>

#include "core/base/device/compute_stream_scope_time_accumulator.h"
#include "core/base/device/device.h"
#include "core/engine/autograd/saved_storage.h"
#include "core/engine/offload/offload_round_trip.h"
#include "core/engine/tier/disk_spilling_activation_host_tier.h"
#include "core/plan/schedule/learned_memory_headroom_timeline.h"
#include "core/plan/schedule/online_activation_transfer_scheduler.h"
#include "core/plan/strategy/plan.h"
#include "core/record/trace/activation_event_recorder.h"

namespace memtune::offload {

class ActivationOffloadEngine final : private schedule::ActivationTransferBackend {
 public:
  // `device` and `tier` must outlive the engine. The engine must outlive all transfers that it made.
  ActivationOffloadEngine(device::Device& device, const plan::TransferSettings& settings,
                          tier::DiskSpillingActivationHostTier& tier, int64_t batch_bytes = schedule::kBatchBytes);
  ~ActivationOffloadEngine() override;
  ActivationOffloadEngine(const ActivationOffloadEngine&) = delete;
  ActivationOffloadEngine& operator=(const ActivationOffloadEngine&) = delete;

  void set_recorder(trace::ActivationEventRecorder* recorder) { recorder_ = recorder; }

  void begin_step();  // discards the order of the previous step and resets the counters
  // Starts to offload the value's storage to the tier of value.place(); the step must hold the storage. Does not wait
  // for the copy. Values that are too small are kept on the device. `op`: the op that saves the value; used by some
  // compatibility flags.
  void start_offload(autograd::SavedStorage& value, int op = -1);
  // See OnlineActivationTransferScheduler.
  void count_save() { schedule_.count_save(); }
  void count_checkpoint_input() { schedule_.count_checkpoint_input(); }
  void end_block() { schedule_.end_block(); }
  void begin_block(int block) { schedule_.begin_block(block); }
  void enter_backward_block(int block) { schedule_.enter_backward_block(block); }
  void prefetch(bool in_head = false) { schedule_.prefetch(in_head); }
  void begin_head() { schedule_.begin_head(); }
  void end_forward() { schedule_.end_forward(); }
  void make_room(int64_t bytes) { schedule_.make_room(bytes); }
  void begin_unpack(const void* node = nullptr);
  // Call around one whole step. `forward_peak`: peak allocated bytes of the forward, because learning resets the
  // device's peak.
  void begin_learning();
  void end_learning(int64_t forward_peak);
  bool learned() const { return learned_.learned(); }

  struct Counters {
    int64_t out_bytes = 0, in_bytes = 0;
  };
  const Counters& counters() const { return counters_; }
  int64_t prefetched_bytes() const { return schedule_.prefetched_bytes(); }
  device::ComputeStreamScopeTimeAccumulator& waits() {
    return waits_;
  }  // time that the compute stream waits for copies

 private:
  friend class OffloadRoundTrip;

  at::Storage reload(OffloadRoundTrip& transfer);
  void before_overwrite(OffloadRoundTrip& transfer) { schedule_.before_overwrite(transfer); }
  void forget(OffloadRoundTrip& transfer) noexcept;

  int64_t allocated_bytes() const override { return device_.memory().allocated; }
  void begin_out() override;
  schedule::CachedPiecePtr put(schedule::ActivationOffloadAndReloadState& transfer, int64_t bytes) override;
  void copy_out(const schedule::CopyBatch& batch) override;
  void stored(const schedule::ActivationPieceCopyBatchEntry& part) override;
  void free_source(schedule::ActivationOffloadAndReloadState& transfer) override;
  void begin_in(std::span<schedule::ActivationOffloadAndReloadState* const> transfers) override;
  void copy_in(const schedule::CopyBatch& batch) override;
  void drop(const schedule::ActivationPieceCopyBatchEntry& part) override;
  void wait_in(schedule::ActivationOffloadAndReloadState& transfer) override;

  device::EventPtr enqueue(const schedule::CopyBatch& batch, const std::vector<device::Device::Copy>& copies,
                           device::CopyDirection direction, device::StreamKind stream);
  void compute_waits(const device::EventPtr& event);

  device::Device& device_;
  trace::ActivationEventRecorder* recorder_ = nullptr;
  const plan::TransferSettings settings_;
  const device::StreamKind out_, in_;
  tier::DiskSpillingActivationHostTier& tier_;
  schedule::LearnedMemoryHeadroomTimeline learned_;
  schedule::OnlineActivationTransferScheduler schedule_;
  device::EventPtr seen_done_;  // last event seen done; transfers of a batch share one
  Counters counters_;
  device::ComputeStreamScopeTimeAccumulator waits_;
};

}  // namespace memtune::offload
