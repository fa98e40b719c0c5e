// The trip of a value away from the device and back.
//
//   send():       [gathered ──>] stashed ── copy out done ──> away     the stash owns the source until then
//   prefetch():   away ──────────────────────────────────> coming_back  issued in the reverse of the order of send()
//   bring_back(): any state ─────────────────────────────> returned     the value holds the bytes
//
// A value placed on disk travels in pieces, so that host memory can be smaller than it. Copies are ordered by events:
// the host thread waits only where the host tier does (on the CPU device, where the calling thread is the compute
// stream, waiting for an event is blocking). A transfer that dies in any state leaves nothing behind.
//
// One step is learned from: with a small stash and nothing copied back early it shows what the plan needs at most, and
// what each stretch of the backward needs. From then on sources wait on the device, and copies come back early, for as
// long as that peak is not raised.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/config/plan.h"
#include "core/device/device.h"
#include "core/device/stopwatch.h"
#include "core/tier/host_tier.h"
#include "core/value/value.h"

namespace memtune::offload {

class Offload;

class Transfer final : public value::Away, public std::enable_shared_from_this<Transfer> {
 public:
  enum class State { gathered, stashed, away, coming_back, returned };

  Transfer(Offload& offload, const value::Value& value, int group, size_t number)
      : offload_(offload), value_(value.key()), bytes_(value.size_bytes()), group_(group), number_(number) {}
  ~Transfer() override;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  at::Storage bring_back() override;
  void before_overwrite() override;

 private:
  friend class Offload;
  Offload& offload_;
  trace::ValueKey value_;
  int64_t bytes_;
  int group_;
  size_t number_;  // in the order of send()
  State state_ = State::gathered;
  bool to_disk_ = false;
  std::vector<tier::PiecePtr> pieces_;
  size_t copied_back_ = 0;  // pieces whose copy back was issued
  at::Storage source_;      // gathered, stashed
  at::Storage target_;      // coming back
  device::EventPtr out_done_, in_done_;
};

class Offload {
 public:
  // Both must outlive the engine.
  Offload(device::Device& device, const config::TransferSettings& settings, tier::HostTier& tier);
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  void set_recorder(trace::Recorder* recorder) { recorder_ = recorder; }

  void begin_step();  // forgets the order of the step before; counters start at 0
  // Copies the value's storage, which the step holds, out to the tier that value.place() says; returns at once. Smaller
  // values than min_bytes are simply held. By blocks, copies start when the block ends.
  void send(value::Value& value);
  void end_block();
  // Issues copies back (and reads) that come next, within the settings and without raising the peak.
  void prefetch();
  // The forward has come to its head, where memory is needed most; and to its end.
  void begin_head();
  void end_forward();
  // A saved tensor is about to be handed out.
  void begin_unpack();
  // `bytes` more will be wanted by the op that runs next: sources leave, as many as the goal asks for.
  void make_room(int64_t bytes);
  // Around one whole step. `forward_peak`: what the forward held at most, since begin_learning resets the device's
  // peak.
  void begin_learning();
  void end_learning(int64_t forward_peak);
  bool learned() const { return goal_ > 0; }

  struct Counters {
    int64_t out_bytes = 0, in_bytes = 0;
  };
  const Counters& counters() const { return counters_; }
  int64_t ahead_bytes() const { return ahead_bytes_; }  // on the device, coming back and not asked for yet
  device::Stopwatch& waits() { return waits_; }         // of compute, for copies

 private:
  friend class Transfer;
  at::Storage bring_back(Transfer& transfer);
  void before_overwrite(Transfer& transfer);
  void start_out(Transfer& transfer, at::Storage source);
  void start_back(Transfer& transfer);
  bool copy_back(Transfer& transfer, bool may_block);
  bool room_for(const Transfer& transfer);
  void read_ahead();
  void unstash(Transfer& transfer);
  void compute_waits(const device::EventPtr& event);
  int64_t stash_limit() const;
  void retire(const std::function<bool(const Transfer&)>& may_stay);
  void flush();
  bool fits_until_wanted(const Transfer& transfer) const;
  void hold_until_wanted(const Transfer& transfer);
  void forget(Transfer& transfer) noexcept;

  device::Device& device_;
  trace::Recorder* recorder_ = nullptr;
  config::TransferSettings settings_;
  tier::HostTier& tier_;
  std::deque<std::weak_ptr<Transfer>> stash_;      // oldest first
  std::vector<std::weak_ptr<Transfer>> order_;     // of send(); consumed from the end by prefetch
  std::vector<std::weak_ptr<Transfer>> gathered_;  // of the running block
  size_t to_read_ = 0;                             // order_[to_read_ - 1] is the next to be read ahead
  int group_ = 0;                                  // blocks ended in this forward
  int group_wanted_ = 0;                           // of the value that backward is at
  int64_t stash_bytes_ = 0;
  int64_t ahead_bytes_ = 0;    // coming back and not asked for yet
  int64_t largest_bytes_ = 0;  // of one transfer so far
  int64_t ceiling_ = 0;        // the peak when this step's first copy back was due: what came later does not lift it
  bool learning_ = false;
  int64_t goal_ = 0;            // the learned peak of a step; 0: not learned yet
  int unpack_ = -1;             // the saved tensor that backward is at, counted
  std::vector<int64_t> peaks_;  // learned: held at most between an unpack and the next
  std::vector<int> wanted_;     // learned: by Transfer::number_, the unpack that asked for it first; -1: none did
  std::vector<int64_t> early_;  // of this step: by unpack, bytes here that the learned step did not have here
  Counters counters_;
  device::Stopwatch waits_;
};

}  // namespace memtune::offload
