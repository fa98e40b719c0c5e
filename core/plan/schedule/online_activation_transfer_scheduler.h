// Decides about the copies of one step: which activations are offloaded, when their sources leave the device, when they
// are reloaded. The engine (core/engine/offload) and the step simulator (core/plan/planner) ask it and carry its
// decisions out as ActivationTransferBackend. It owns no memory.
#pragma once

#include "core/plan/schedule/activation_reload_scheduler.h"
#include "core/plan/schedule/copy_out_and_device_release_scheduler.h"

namespace memtune::schedule {

class OnlineActivationTransferScheduler {
 public:
  // All references must outlive it. `largest_bytes`: of the largest transfer of earlier steps.
  OnlineActivationTransferScheduler(const plan::TransferSettings& settings, LearnedMemoryHeadroomTimeline& learned,
                                    DiskSpillingHostCache& cache, ActivationTransferBackend& device,
                                    int64_t batch_bytes = kBatchBytes, int64_t largest_bytes = 0)
      : settings_(settings),
        learned_(learned),
        stash_(settings, batch_bytes, largest_bytes, learned, device),
        reloads_(settings, batch_bytes, learned, cache, device) {}

  void begin_step();  // discards the order of the previous step
  // Smaller storages stay on the device.
  bool takes(int64_t bytes) const { return bytes > 0 && bytes >= settings_.min_bytes; }
  // The caller holds the source. With ActivationOffloadCopyGranularity::block, copies start when the block ends.
  void start_offload(ActivationOffloadAndReloadState& transfer);
  // Counts one more saved tensor, offloaded or not. Only used with ThirdPartyEngineEmulationFlags::counts_all.
  void count_save();
  // A recorded op keeps an input that is offloaded. Counts as two saves, like a checkpoint's: its input and an empty
  // tensor.
  void count_checkpoint_input();
  // Forward enters `block` (-1: none) and the current block ends.
  void begin_block(int block);
  void end_block() { stash_.end_block(); }
  // Forward reaches the output head, where memory use is highest; forward ends.
  void begin_head() { stash_.begin_head(); }
  void end_forward();
  // The next op is expected to need `bytes` more. Frees sources until allocated memory plus `bytes` is within the
  // learned peak.
  void make_room(int64_t bytes) { stash_.make_room(bytes); }

  // Backward reads tensors that `block` saved. With ActivationOffloadCopyGranularity::block and without learning,
  // reaching a block starts its reloads, even if the block offloaded nothing.
  void enter_backward_block(int block) { reloads_.enter_backward_block(block); }
  // A saved tensor is about to be unpacked for this node of the autograd graph.
  void begin_unpack(const void* node) { reloads_.begin_unpack(node); }
  // Afterwards the bytes are on the device: in the source if the transfer has one, else in the target.
  void reload(ActivationOffloadAndReloadState& transfer);
  // Starts the next reloads (and disk reads) as far as the settings and the peak allow. `in_head`: backward is in head
  // and loss, when memory use is highest. Learning engines prefetch there only by a learned schedule.
  void prefetch(bool in_head = false);

  void before_overwrite(ActivationOffloadAndReloadState& transfer) { stash_.before_overwrite(transfer); }
  // The caller makes compute wait for copies in flight.
  void forget(ActivationOffloadAndReloadState& transfer);

  int64_t largest_bytes() const { return stash_.largest_bytes(); }
  int64_t prefetched_bytes() const { return reloads_.prefetched_bytes(); }

 private:
  const plan::TransferSettings& settings_;
  LearnedMemoryHeadroomTimeline& learned_;
  CopyOutAndDeviceReleaseScheduler stash_;
  ActivationReloadScheduler reloads_;
};

}  // namespace memtune::schedule
