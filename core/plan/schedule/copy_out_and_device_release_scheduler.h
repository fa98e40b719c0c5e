// Decides when sources are copied out and when they leave the device.
//
// While the peak is unknown the stash is small. Once a step was learned (LearnedMemoryHeadroomTimeline), sources stay
// on the device as long as the peak stays, and small sources are gathered: one call and one event per batch.
//
// Whether a copy has ended decides nothing, so that every step, and a simulated one, has the same memory free at the
// same op.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "core/plan/schedule/activation_offload_and_reload_state.h"
#include "core/plan/schedule/learned_memory_headroom_timeline.h"
#include "core/plan/strategy/plan.h"

namespace memtune::schedule {

class CopyOutAndDeviceReleaseScheduler {
 public:
  // All references must outlive it. `batch_bytes`: of one call. `largest_bytes`: of the largest transfer of earlier
  // steps.
  CopyOutAndDeviceReleaseScheduler(const plan::TransferSettings& settings, int64_t batch_bytes, int64_t largest_bytes,
                                   LearnedMemoryHeadroomTimeline& learned, ActivationTransferBackend& device)
      : settings_(settings),
        batch_bytes_(batch_bytes),
        learned_(learned),
        device_(device),
        largest_bytes_(largest_bytes) {}

  void begin_step();
  void count_save() { ++saves_; }
  void add(ActivationOffloadAndReloadState& transfer);
  void end_block();
  void begin_head();
  void end_forward();
  // See OnlineActivationTransferScheduler.
  void make_room(int64_t bytes);
  void before_overwrite(ActivationOffloadAndReloadState& transfer);
  void evict_all();
  void forget(ActivationOffloadAndReloadState& transfer);

  int group() const { return group_; }  // number of blocks that ended in this forward
  int64_t largest_bytes() const { return largest_bytes_; }

 private:
  bool by_blocks() const { return settings_.schedule == plan::ActivationOffloadCopyGranularity::block; }
  bool gathers_more() const;
  void start_gathered();
  void leave_gathered(ActivationOffloadAndReloadState& transfer);
  void start_out(std::span<ActivationOffloadAndReloadState* const> transfers);
  void put(ActivationOffloadAndReloadState& transfer, CopyBatch& batch);
  void copy_out(CopyBatch& batch);
  int64_t stash_limit() const;
  void retire(const std::function<bool(const ActivationOffloadAndReloadState&)>& may_stay);
  void unstash(ActivationOffloadAndReloadState& transfer);
  void leave_device(ActivationOffloadAndReloadState& transfer);
  void flush();

  const plan::TransferSettings& settings_;
  const int64_t batch_bytes_;
  LearnedMemoryHeadroomTimeline& learned_;
  ActivationTransferBackend& device_;
  std::vector<ActivationOffloadAndReloadState*> gathered_;  // oldest first, like stash_
  std::deque<ActivationOffloadAndReloadState*> stash_;
  int group_ = 0;
  int64_t saves_ = 0;  // of this forward
  int64_t gathered_bytes_ = 0, stash_bytes_ = 0, largest_bytes_;
  int64_t op_bytes_ = 0;  // expected need of the running op
};

}  // namespace memtune::schedule
