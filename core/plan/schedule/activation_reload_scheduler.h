// Decides when offloaded activations are copied back: on request, or ahead of it as the peak allows. Backward needs the
// newest first. Pieces on the disk are read ahead in the same order.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "core/plan/schedule/activation_offload_and_reload_state.h"
#include "core/plan/schedule/learned_memory_headroom_timeline.h"
#include "core/plan/strategy/plan.h"

namespace memtune::schedule {

class ActivationReloadScheduler {
 public:
  // All references must outlive it. `batch_bytes`: of one call.
  ActivationReloadScheduler(const plan::TransferSettings& settings, int64_t batch_bytes,
                            LearnedMemoryHeadroomTimeline& learned, DiskSpillingHostCache& cache,
                            ActivationTransferBackend& device)
      : settings_(settings), batch_bytes_(batch_bytes), learned_(learned), cache_(cache), device_(device) {}

  void begin_step();
  void add(ActivationOffloadAndReloadState& transfer);
  // Forward enters a block, after `group` blocks. See OnlineActivationTransferScheduler.
  void begin_block(int block, int group);
  void end_forward(int group);
  void enter_backward_block(int block);
  void begin_unpack(const void* node) { node_ = node; }
  // Backward asks for this transfer. Returns true if the node is another one than that of the transfer before.
  bool ask(const ActivationOffloadAndReloadState& transfer);
  void reload(ActivationOffloadAndReloadState& transfer);
  void prefetch();
  void forget(ActivationOffloadAndReloadState& transfer);

  int64_t prefetched_bytes() const { return prefetched_bytes_; }  // on the device and not yet requested

 private:
  bool by_blocks() const { return settings_.schedule == plan::ActivationOffloadCopyGranularity::block; }
  // Reloads start when backward reaches a block, not by the learned schedule.
  bool follows_backward() const { return by_blocks() && !settings_.compatibility.learns; }
  bool room_for(const ActivationOffloadAndReloadState& transfer, int64_t pending_bytes) const;
  void start_reloads(std::span<ActivationOffloadAndReloadState* const> transfers);
  void fetch(ActivationOffloadAndReloadState& transfer, CopyBatch& batch);
  void copy_in(CopyBatch& batch);
  bool copy_back(ActivationOffloadAndReloadState& transfer, bool may_block);
  void prefetch_next_op();
  void read_ahead();

  const plan::TransferSettings& settings_;
  const int64_t batch_bytes_;
  LearnedMemoryHeadroomTimeline& learned_;
  DiskSpillingHostCache& cache_;
  ActivationTransferBackend& device_;
  std::vector<ActivationOffloadAndReloadState*>
      order_;                  // oldest first; prefetch consumes it from the end; null: forgotten
  size_t to_read_ = 0;         // order_[to_read_ - 1] is the next to read ahead
  std::map<int, int> groups_;  // block -> blocks that ended before it
  int group_wanted_ = 0;       // group of the transfer that backward reads now
  int op_wanted_ = -1;         // op whose saved tensors backward reads now; -1: none yet
  int op_fetched_for_ = -1;
  const void *node_ = nullptr, *node_served_ = nullptr;  // node that unpacks now; node of the last transfer
  int64_t prefetched_bytes_ = 0;
};

}  // namespace memtune::schedule
