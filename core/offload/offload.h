// Issues the copies of values that leave the device and come back.
//
// Copies are ordered by events: the host thread waits only where the host tier does (on the CPU device, where the
// calling thread is the compute stream, waiting for an event is blocking).
//
// One step is learned from, with a small stash and nothing copied back early. From then on sources wait on the device,
// and copies come back early, for as long as its peak is not raised: LearnedSchedule. Since sources may wait, small
// values leave together, and together they come back: in one call of the driver, with one event behind all of them.
// Under the habits of other engines (config/plan.h) nothing is learned, and copies leave and come back one by one.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "core/autograd/saved_value.h"
#include "core/config/plan.h"
#include "core/device/device.h"
#include "core/device/stopwatch.h"
#include "core/offload/transfer.h"
#include "core/tier/host_tier.h"
#include "core/tier/learned_schedule.h"
#include "core/trace/recorder.h"

namespace memtune::offload {

class Offload {
 public:
  // Copied in one call at most; larger values alone. A fifth of a millisecond of the link.
  static constexpr int64_t kBatchBytes = 8 << 20;

  // Device and tier must outlive the engine, and the engine all that it sent.
  Offload(device::Device& device, const config::TransferSettings& settings, tier::HostTier& tier,
          int64_t batch_bytes = kBatchBytes);
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  void set_recorder(trace::Recorder* recorder) { recorder_ = recorder; }

  void begin_step();  // forgets the order of the step before; counters start at 0
  // Copies the value's storage, which the step holds, out to the tier that value.place() says; returns at once. Smaller
  // values than min_bytes are simply held. By blocks, copies start when the block ends.
  // `op`: that saves it, where habits ask.
  void send(autograd::SavedValue& value, int op = -1);
  // Under habits that count them: a tensor more was saved, whatever becomes of it.
  void count_save() { saves_ += settings_.habits.counts_all ? 1 : 0; }
  void end_block();
  // The forward comes to that block (-1: to none), where another ends; backward is at what that block saved. Under
  // habits, by blocks, copies back start when backward comes to a block, whether it moved anything or not.
  void begin_block(int block);
  void backward_in(int block);
  // Issues copies back (and reads) that come next, within the settings and without raising the peak.
  void prefetch();
  // The forward has come to its head, where memory is needed most; and to its end.
  void begin_head();
  void end_forward();
  // A saved tensor is about to be handed out, to that node of autograd's graph.
  void begin_unpack(const void* node = nullptr);
  // `bytes` more will be wanted by the op that runs next: sources leave, as many as the goal asks for.
  void make_room(int64_t bytes);
  // Around one whole step. `forward_peak`: what the forward held at most, since begin_learning resets the device's
  // peak.
  void begin_learning();
  void end_learning(int64_t forward_peak);
  bool learned() const { return schedule_.learned(); }
  // Whether what comes next may come back while the backward of head and loss runs, when memory is needed most.
  bool prefetches_in_head() const { return learned() || !settings_.habits.learns; }

  struct Counters {
    int64_t out_bytes = 0, in_bytes = 0;
  };
  const Counters& counters() const { return counters_; }
  int64_t ahead_bytes() const { return ahead_bytes_; }  // on the device, coming back and not asked for yet
  device::Stopwatch& waits() { return waits_; }         // of compute, for copies

 private:
  friend class Transfer;

  // Copies of one direction that go in one call.
  struct Batch {
    struct Part {
      Transfer* transfer;
      tier::PiecePtr piece;
    };
    std::vector<device::Device::Copy> copies;
    std::vector<Part> parts;  // whose they are
    void add(Transfer& transfer, const device::Device::Copy& copy, tier::PiecePtr piece);
  };

  at::Storage bring_back(Transfer& transfer);
  void before_overwrite(Transfer& transfer);
  void forget(Transfer& transfer) noexcept;

  bool by_blocks() const { return settings_.schedule == config::Schedule::block; }
  // Copies back start by the block that backward has come to, not by what was learned.
  bool follows_backward() const { return by_blocks() && !settings_.habits.learns; }
  bool gathers_more() const;
  void start_gathered();
  void leave_gathered(Transfer& transfer);
  void start_out(std::span<Transfer* const> transfers);
  void put(Transfer& transfer, Batch& batch);
  void copy_out(Batch& batch);
  int64_t stash_limit() const;
  void retire(const std::function<bool(const Transfer&)>& may_stay);
  void evict(int64_t save);
  void unstash(Transfer& transfer);
  void leave_device(Transfer& transfer);
  void flush();

  bool room_for(const Transfer& transfer, int64_t pending_bytes);
  void start_back(std::span<Transfer* const> transfers);
  void fetch(Transfer& transfer, Batch& batch);
  void copy_in(Batch& batch);
  void prefetch_next_op();
  bool copy_back(Transfer& transfer, bool may_block);
  void read_ahead();

  device::EventPtr enqueue(const Batch& batch, device::Direction direction, device::Stream stream);
  void compute_waits(const device::EventPtr& event);

  device::Device& device_;
  trace::Recorder* recorder_ = nullptr;
  const config::TransferSettings settings_;
  const int64_t batch_bytes_;
  const device::Stream out_, in_;
  tier::HostTier& tier_;
  tier::LearnedSchedule schedule_;
  std::vector<Transfer*> order_;     // of send(); consumed from the end by prefetch; null: died
  std::vector<Transfer*> gathered_;  // oldest first, as those of the stash
  std::deque<Transfer*> stash_;
  size_t to_read_ = 0;                                   // order_[to_read_ - 1] is the next to be read ahead
  int group_ = 0;                                        // blocks ended in this forward
  int group_wanted_ = 0;                                 // of the value that backward is at
  std::map<int, int> groups_;                            // by block: group_ in it
  int64_t saves_ = 0;                                    // counted for stash_saves in this forward
  int op_wanted_ = -1;                                   // whose saved tensors backward is at; -1: not there yet
  const void *node_ = nullptr, *node_served_ = nullptr;  // that asks; that the last transfer was for
  int op_fetched_for_ = -1;
  int64_t gathered_bytes_ = 0;
  int64_t stash_bytes_ = 0;
  int64_t ahead_bytes_ = 0;
  int64_t largest_bytes_ = 0;  // of one transfer so far
  int64_t op_bytes_ = 0;       // that the running op was expected to want
  int64_t ceiling_ = 0;        // the peak when this step's first copy back was due: what came later does not lift it
  Counters counters_;
  device::Stopwatch waits_;
};

}  // namespace memtune::offload
