// Simulated host memory with the disk behind it: makes the decisions of core/engine/tier, on counted bytes and the
// step's clocks. Reads and writes are one queue each. A speed of 0 is unknown and counts as infinite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/plan/planner/simulated_clock.h"

namespace memtune::planner {

// Where a step may offload to.
struct OffloadTierLimits {
  int64_t host_budget_bytes = 0;  // 0: no limit
  bool disk = false;              // values placed on disk may spill to it
};

// Host memory in slabs, with best fit like tier::HostMemoryPool.
class SimulatedHostPool {
 public:
  struct Range {
    int64_t begin = 0, bytes = 0;
    double free_after = 0;  // end of the last copy that reads or writes there, in ms
  };

  SimulatedHostPool(int64_t slab_bytes, int64_t budget_bytes) : slab_bytes_(slab_bytes), budget_bytes_(budget_bytes) {}

  std::optional<Range> try_lease(int64_t bytes);
  Range lease_over_budget(int64_t bytes);  // exceeds the budget
  void deallocate(const Range& range);
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  bool grow(int64_t bytes);
  void insert(Range range);

  const int64_t slab_bytes_, budget_bytes_;
  std::vector<Range> free_;  // by address
  int64_t leased_bytes_ = 0, peak_bytes_ = 0, reserved_bytes_ = 0, next_address_ = 0;
};

class SimulatedHostTier {
 public:
  struct Speeds {
    double write_gb_per_s = 0, read_gb_per_s = 0;
  };

  // `clock` must outlive it. `last_step_bytes`: put by the previous step; 0: there was none.
  SimulatedHostTier(const OffloadTierLimits& tiers, const Speeds& speeds, int64_t slab_bytes, int64_t last_step_bytes,
                    SimulatedClock& clock)
      : tiers_(tiers),
        speeds_(speeds),
        pool_(slab_bytes, tiers.host_budget_bytes),
        last_step_bytes_(last_step_bytes),
        clock_(clock) {}

  // Returns the number of a piece with room. The host waits for the room.
  int put(int64_t bytes, bool may_spill);
  double free_after(int piece) const { return pieces_[piece].lease.free_after; }  // earliest write, in ms
  void stored(int piece, double out_done);
  bool read_ahead(int piece);
  bool ready(int piece) const;
  void fetch(int piece);
  // `last_use`: end of the last copy from the room, in ms; nothing: there was none.
  void drop(int piece, std::optional<double> last_use = {});

  bool has_disk() const { return tiers_.disk; }
  int64_t put_bytes() const { return put_bytes_; }
  int64_t host_peak_bytes() const { return pool_.peak_bytes(); }
  int64_t disk_write_bytes() const { return disk_write_bytes_; }
  int64_t disk_read_bytes() const { return disk_read_bytes_; }
  int64_t disk_peak_bytes() const { return disk_peak_bytes_; }

 private:
  enum class State { dirty, writing, on_disk, reading, used };
  struct Piece {
    int64_t bytes = 0;
    bool may_spill = false;
    State state = State::dirty;
    bool in_host = true, has_block = false, has_request = false;
    SimulatedHostPool::Range lease;
    double written = 0, done = 0;  // ends of its write and of its last request
  };

  int64_t dirty_limit() const;
  void start_write(int piece);
  void start_read(int piece, const SimulatedHostPool::Range& lease);
  SimulatedHostPool::Range room(int64_t bytes);
  bool make_room();
  void leave_host(Piece& piece, State state);
  void leave_disk(Piece& piece);
  void reap();
  std::optional<int> take_oldest(std::deque<int>& queue, State state);
  std::optional<int> take_newest(std::deque<int>& queue, State state);

  const OffloadTierLimits tiers_;
  const Speeds speeds_;
  SimulatedHostPool pool_;
  const int64_t last_step_bytes_;
  SimulatedClock& clock_;
  std::vector<Piece> pieces_;
  std::deque<int> dirty_, writing_, ahead_;  // oldest first; pieces in another state are skipped
  std::vector<int> leaving_;
  double write_free_ = 0, read_free_ = 0;
  int64_t dirty_bytes_ = 0, put_bytes_ = 0, disk_bytes_ = 0, disk_peak_bytes_ = 0;
  int64_t disk_write_bytes_ = 0, disk_read_bytes_ = 0;
};

}  // namespace memtune::planner
