// Transfer simulator: makes the decisions of core/engine/offload, on counted bytes and two clocks. Each direction is a
// queue: a batch starts when it is issued and the batch before it has ended. Unknown bandwidths are infinite.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "core/plan/planner/simulated_clock.h"
#include "core/plan/planner/simulated_device_memory.h"
#include "core/plan/planner/simulated_host_tier.h"
#include "core/plan/schedule/learned_offload_schedule.h"
#include "core/plan/strategy/plan.h"

namespace memtune::planner {

class TransferSimulator {
 public:
  struct Link {
    double out_gb_per_s = 0, in_gb_per_s = 0;
  };

  // All arguments but `link` must outlive it. `largest_bytes`: of the largest transfer of earlier steps.
  TransferSimulator(const plan::TransferSettings& settings, const Link& link, SimulatedDeviceMemory& memory,
                    SimulatedClock& clock, SimulatedHostTier& tier, schedule::LearnedOffloadSchedule& schedule,
                    int64_t largest_bytes)
      : settings_(settings),
        link_(link),
        memory_(memory),
        clock_(clock),
        tier_(tier),
        schedule_(schedule),
        largest_bytes_(largest_bytes) {}

  bool takes(int64_t bytes) const { return bytes > 0 && bytes >= settings_.min_bytes; }
  // Returns the number of the transfer. `block`: its source, of `held_bytes`.
  int start_offload(int block, int64_t bytes, int64_t held_bytes, bool on_disk);
  void end_block();
  void begin_head();
  void end_forward();
  void begin_unpack();
  void prefetch();
  void make_room(int64_t bytes);
  bool learned() const { return schedule_.learned(); }

  // Returns the memory block with the bytes, with one more reference.
  int reload(int number);
  void before_overwrite(int number);
  void forget(int number);

  int64_t largest_bytes() const { return largest_bytes_; }
  int64_t out_bytes() const { return out_bytes_; }
  int64_t in_bytes() const { return in_bytes_; }
  double copy_ms() const { return copy_ms_; }  // of both directions

 private:
  static constexpr int kNone = SimulatedDeviceMemory::kNone;

  enum class State { gathered, stashed, offloaded, reloading, returned };
  struct Transfer {
    int64_t bytes = 0, held_bytes = 0;
    bool on_disk = false;
    int group = 0;
    State state = State::gathered;
    int source = SimulatedDeviceMemory::kNone, target = SimulatedDeviceMemory::kNone;
    double out_done = 0, in_done = 0;
    std::vector<schedule::CachedPiecePtr> pieces = {};  // in host memory or on disk; their copies out were issued
    size_t pieces_back = 0;
    bool all_back() const { return pieces_back == pieces.size(); }
  };
  // Copies of one direction in one call of the driver.
  struct Batch {
    struct Part {
      int number;
      schedule::CachedPiecePtr piece;
      bool last;  // of its transfer
    };
    int64_t bytes = 0;
    double after = 0;  // earliest start, in ms
    std::vector<Part> parts = {};
  };

  bool by_blocks() const { return settings_.schedule == plan::OffloadGranularity::block; }
  bool gathers_more() const;
  void start_gathered();
  void start_out(std::span<const int> numbers);
  void put(int number, Batch& batch);
  void copy_out(Batch& batch);
  void leave_gathered(int number);
  int64_t stash_limit() const;
  template <typename MayStay>
  void retire(const MayStay& may_stay);
  void unstash(int number);
  void leave_device(Transfer& transfer);
  void flush();
  bool room_for(int number, int64_t pending_bytes);
  void start_reloads(std::span<const int> numbers);
  void fetch(int number, Batch& batch);
  void copy_in(Batch& batch);
  bool copy_back(int number, bool may_block);
  void read_ahead();
  double copy(const Batch& batch, double gb_per_s, double& free_at);

  const plan::TransferSettings& settings_;
  const Link link_;
  SimulatedDeviceMemory& memory_;
  SimulatedClock& clock_;
  SimulatedHostTier& tier_;
  schedule::LearnedOffloadSchedule& schedule_;
  std::vector<Transfer> transfers_;
  std::vector<int> order_;  // in the order of send(); kNone: was forgotten
  std::vector<int> gathered_;
  std::deque<int> stash_;
  size_t to_read_ = 0;  // order_[to_read_ - 1] is the next to be read ahead
  int group_ = 0, group_wanted_ = 0;
  int64_t gathered_bytes_ = 0, stash_bytes_ = 0, prefetched_bytes_ = 0, largest_bytes_ = 0, op_bytes_ = 0;
  double out_free_ = 0, in_free_ = 0, copy_ms_ = 0;
  int64_t out_bytes_ = 0, in_bytes_ = 0;
};

}  // namespace memtune::planner
