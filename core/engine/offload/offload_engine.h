// Offloads values to host memory and reloads them on side streams.
//
// Events order the copies. The host thread waits only where the host tier does. (On the CPU device the calling thread
// is the compute stream, so waiting for an event blocks.)
//
// One whole step is used for learning. It and the steps before it have a small stash and prefetch nothing. In later
// steps, sources stay on the device and copies are prefetched as long as the peak stays (LearnedOffloadSchedule). Small
// values are then batched: one driver call and one event per batch, in both directions. With the compatibility flags of
// other engines (core/plan/strategy/plan.h) nothing is learned and values are copied one by one.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "core/base/device/device.h"
#include "core/base/device/stream_timer.h"
#include "core/engine/autograd/saved_storage.h"
#include "core/engine/offload/offload_transfer.h"
#include "core/engine/tier/host_tier.h"
#include "core/plan/schedule/copy_sizes.h"
#include "core/plan/schedule/learned_offload_schedule.h"
#include "core/plan/strategy/plan.h"
#include "core/record/trace/value_event_recorder.h"

namespace memtune::offload {

class OffloadEngine {
 public:
  // `device` and `tier` must outlive the engine. The engine must outlive all transfers that it made.
  OffloadEngine(device::Device& device, const plan::TransferSettings& settings, tier::HostTier& tier,
                int64_t batch_bytes = schedule::kBatchBytes);
  ~OffloadEngine();
  OffloadEngine(const OffloadEngine&) = delete;
  OffloadEngine& operator=(const OffloadEngine&) = delete;

  void set_recorder(trace::ValueEventRecorder* recorder) { recorder_ = recorder; }

  void begin_step();  // discards the order of the previous step and resets the counters
  // Starts to offload the value's storage to the tier of value.place(); the step must hold the storage. Does not wait
  // for the copy. Values smaller than min_bytes are kept on the device. With OffloadGranularity::block, copies start
  // when the block ends. `op`: the op that saves the value; used by some compatibility flags.
  void start_offload(autograd::SavedStorage& value, int op = -1);
  // Counts one more saved tensor, offloaded or not. Only used with EngineCompatibilityFlags::counts_all.
  void count_save() { saves_ += settings_.compatibility.counts_all ? 1 : 0; }
  void end_block();
  // Forward enters `block` (-1: none) and the current block ends. enter_backward_block(): backward reads tensors that
  // `block` saved. With OffloadGranularity::block and without learning, reaching a block in backward starts its
  // reloads, even if the block offloaded nothing.
  void begin_block(int block);
  void enter_backward_block(int block);
  // Issues the next reloads (and disk reads) as far as the settings and the peak allow.
  void prefetch();
  // Forward reaches the output head, where memory use is highest; forward ends.
  void begin_head();
  void end_forward();
  // A saved tensor is about to be unpacked for this node of the autograd graph.
  void begin_unpack(const void* node = nullptr);
  // The next op is expected to need `bytes` more. Releases sources until allocated memory plus `bytes` is within the
  // learned peak.
  void make_room(int64_t bytes);
  // Call around one whole step. `forward_peak`: peak allocated bytes of the forward, because learning resets the
  // device's peak.
  void begin_learning();
  void end_learning(int64_t forward_peak);
  bool learned() const { return schedule_.learned(); }
  // True if prefetching may continue during the backward of head and loss, when memory use is highest.
  bool prefetches_in_head() const { return learned() || !settings_.compatibility.learns; }

  struct Counters {
    int64_t out_bytes = 0, in_bytes = 0;
  };
  const Counters& counters() const { return counters_; }
  int64_t prefetched_bytes() const { return prefetched_bytes_; }  // prefetched, on the device and not yet requested
  device::StreamTimer& waits() { return waits_; }                 // time that the compute stream waits for copies

 private:
  friend class OffloadTransfer;

  // Copies in one direction that are issued in one call.
  struct Batch {
    struct Part {
      OffloadTransfer* transfer;
      tier::HostTierPiecePtr piece;
    };
    std::vector<device::Device::Copy> copies;
    std::vector<Part> parts;  // one entry per copy
    void add(OffloadTransfer& transfer, const device::Device::Copy& copy, tier::HostTierPiecePtr piece);
  };

  at::Storage reload(OffloadTransfer& transfer);
  void before_overwrite(OffloadTransfer& transfer);
  void forget(OffloadTransfer& transfer) noexcept;

  bool by_blocks() const { return settings_.schedule == plan::OffloadGranularity::block; }
  // Reloads start when backward reaches a block, not by the learned schedule.
  bool follows_backward() const { return by_blocks() && !settings_.compatibility.learns; }
  bool gathers_more() const;
  void start_gathered();
  void leave_gathered(OffloadTransfer& transfer);
  void start_out(std::span<OffloadTransfer* const> transfers);
  void put(OffloadTransfer& transfer, Batch& batch);
  void copy_out(Batch& batch);
  int64_t stash_limit() const;
  void retire(const std::function<bool(const OffloadTransfer&)>& may_stay);
  void evict(int64_t save);
  void unstash(OffloadTransfer& transfer);
  void leave_device(OffloadTransfer& transfer);
  void flush();

  bool room_for(const OffloadTransfer& transfer, int64_t pending_bytes);
  void start_reloads(std::span<OffloadTransfer* const> transfers);
  void fetch(OffloadTransfer& transfer, Batch& batch);
  void copy_in(Batch& batch);
  void prefetch_next_op();
  bool copy_back(OffloadTransfer& transfer, bool may_block);
  void read_ahead();

  device::EventPtr enqueue(const Batch& batch, device::CopyDirection direction, device::Stream stream);
  void compute_waits(const device::EventPtr& event);

  device::Device& device_;
  trace::ValueEventRecorder* recorder_ = nullptr;
  const plan::TransferSettings settings_;
  const int64_t batch_bytes_;
  const device::Stream out_, in_;
  tier::HostTier& tier_;
  schedule::LearnedOffloadSchedule schedule_;
  std::vector<OffloadTransfer*>
      order_;  // in order of send(); prefetch consumes it from the end; null: transfer destroyed
  std::vector<OffloadTransfer*> gathered_;  // oldest first, like stash_
  std::deque<OffloadTransfer*> stash_;
  size_t to_read_ = 0;                                   // order_[to_read_ - 1] is the next to read ahead
  int group_ = 0;                                        // number of blocks that ended in this forward
  int group_wanted_ = 0;                                 // group of the value that backward reads now
  std::map<int, int> groups_;                            // block -> its group_
  int64_t saves_ = 0;                                    // saves of this forward, counted for stash_saves
  int op_wanted_ = -1;                                   // op whose saved tensors backward reads now; -1: none yet
  const void *node_ = nullptr, *node_served_ = nullptr;  // node that unpacks now; node of the last transfer
  int op_fetched_for_ = -1;
  int64_t gathered_bytes_ = 0;
  int64_t stash_bytes_ = 0;
  int64_t prefetched_bytes_ = 0;
  int64_t largest_bytes_ = 0;  // largest transfer so far
  int64_t op_bytes_ = 0;       // expected need of the running op
  Counters counters_;
  device::StreamTimer waits_;
};

}  // namespace memtune::offload
