// Simulated copies between device and host, on counted bytes and two clocks. OnlineActivationTransferScheduler decides,
// as in the engine. Each direction is a queue: a batch starts when it is issued and the batch before it has ended.
// Unknown bandwidths are infinite.
#pragma once

#include <deque>
#include <span>

#include "core/plan/planner/simulated_compute_and_host_clock.h"
#include "core/plan/planner/simulated_device_memory.h"
#include "core/plan/planner/simulated_host_and_disk_tier.h"
#include "core/plan/schedule/learned_memory_headroom_timeline.h"
#include "core/plan/schedule/online_activation_transfer_scheduler.h"
#include "core/plan/strategy/plan.h"

namespace memtune::planner {

class DeviceHostCopySimulator final : private schedule::ActivationTransferBackend {
 public:
  struct Link {
    double out_gb_per_s = 0, in_gb_per_s = 0;
    double issue_ms = 0;  // of the host, for each copy
  };

  // All arguments but `link` must outlive it. `largest_bytes`: of the largest transfer of earlier steps.
  DeviceHostCopySimulator(const plan::TransferSettings& settings, const Link& link, SimulatedDeviceMemory& memory,
                          SimulatedComputeAndHostClock& clock, SimulatedHostAndDiskTier& tier,
                          schedule::LearnedMemoryHeadroomTimeline& learned, int64_t largest_bytes)
      : settings_(settings),
        link_(link),
        memory_(memory),
        clock_(clock),
        tier_(tier),
        learned_(learned),
        schedule_(settings, learned, tier.cache(), *this, schedule::kBatchBytes, largest_bytes) {}
  DeviceHostCopySimulator(const DeviceHostCopySimulator&) = delete;
  DeviceHostCopySimulator& operator=(const DeviceHostCopySimulator&) = delete;

  schedule::OnlineActivationTransferScheduler& schedule() { return schedule_; }
  const schedule::OnlineActivationTransferScheduler& schedule() const { return schedule_; }
  // Returns the number of the transfer. `block`: its source, of `held_bytes`. `op`: that saves it.
  int start_offload(int block, int64_t bytes, int64_t held_bytes, bool on_disk, int op);
  void begin_unpack(const void* node);
  // Returns the memory block with the bytes, with one more reference.
  int reload(int number);
  void before_overwrite(int number) { schedule_.before_overwrite(transfers_[number]); }
  void forget(int number);

  // Copies of parameters and optimizer states, behind those of activations. Return when they end.
  double copy_states_out(int64_t bytes) { return enqueue(bytes, 0, link_.out_gb_per_s, out_free_); }
  double copy_states_in(int64_t bytes) { return enqueue(bytes, 0, link_.in_gb_per_s, in_free_); }

  int64_t out_bytes() const { return out_bytes_; }
  int64_t in_bytes() const { return in_bytes_; }
  double copy_ms() const { return copy_ms_; }  // of both directions

 private:
  static constexpr int kNone = SimulatedDeviceMemory::kNone;

  struct Transfer final : schedule::ActivationOffloadAndReloadState {
    using ActivationOffloadAndReloadState::ActivationOffloadAndReloadState;
    int64_t held_bytes = 0;
    int source = SimulatedDeviceMemory::kNone, target = SimulatedDeviceMemory::kNone;
    double out_done = 0, in_done = 0;
  };
  static Transfer& of(schedule::ActivationOffloadAndReloadState& transfer) { return static_cast<Transfer&>(transfer); }

  int64_t allocated_bytes() const override { return memory_.allocated(); }
  void begin_out() override {}
  schedule::CachedPiecePtr put(schedule::ActivationOffloadAndReloadState& transfer, int64_t bytes) override;
  void copy_out(const schedule::CopyBatch& batch) override;
  void stored(const schedule::ActivationPieceCopyBatchEntry& part) override;
  void free_source(schedule::ActivationOffloadAndReloadState& transfer) override;
  void begin_in(std::span<schedule::ActivationOffloadAndReloadState* const> transfers) override;
  void copy_in(const schedule::CopyBatch& batch) override;
  void drop(const schedule::ActivationPieceCopyBatchEntry& part) override;
  void wait_in(schedule::ActivationOffloadAndReloadState& transfer) override;
  double copy(int64_t bytes, double after, double gb_per_s, double& free_at);
  double enqueue(int64_t bytes, double after, double gb_per_s, double& free_at);

  const plan::TransferSettings& settings_;
  const Link link_;
  SimulatedDeviceMemory& memory_;
  SimulatedComputeAndHostClock& clock_;
  SimulatedHostAndDiskTier& tier_;
  schedule::LearnedMemoryHeadroomTimeline& learned_;
  schedule::OnlineActivationTransferScheduler schedule_;
  std::deque<Transfer> transfers_;
  double out_free_ = 0, in_free_ = 0, copy_ms_ = 0;
  int64_t out_bytes_ = 0, in_bytes_ = 0;
};

}  // namespace memtune::planner
