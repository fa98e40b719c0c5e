// Simulated host memory with the disk behind it, on counted bytes and the step's clocks. DiskSpillingHostCache decides,
// as in the engine. Reads and writes are one queue each. A speed of 0 is unknown and counts as infinite.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/plan/planner/simulated_compute_and_host_clock.h"
#include "core/plan/schedule/disk_spilling_host_cache.h"
#include "core/plan/schedule/host_slab_best_fit_allocator.h"

namespace memtune::planner {

// Where a step may offload to.
struct AllowedOffloadTiersAndHostBudget {
  int64_t host_budget_bytes = 0;  // 0: no limit
  bool disk = false;              // values placed on disk may spill to it
  bool states = false;            // plans may offload parameters and optimizer states, if they were recorded
};

// When the last copy that reads or writes some host memory ends, in ms.
struct SimulatedLastCopyEndBeforeHostReuse {
  double ms = 0;
  void add(SimulatedLastCopyEndBeforeHostReuse other) { ms = std::max(ms, other.ms); }
  void forget_done() {}
};

class SimulatedHostAndDiskTier final : private schedule::DiskSpillingHostCacheBackend {
 public:
  struct Speeds {
    double write_gb_per_s = 0, read_gb_per_s = 0;
  };

  // `clock` must outlive it. `last_step_bytes`: put by the previous step; 0: there was none.
  // `power_of_two`: see HostSlabBestFitAllocator.
  SimulatedHostAndDiskTier(const AllowedOffloadTiersAndHostBudget& tiers, const Speeds& speeds, int64_t slab_bytes,
                           bool power_of_two, int64_t last_step_bytes, SimulatedComputeAndHostClock& clock)
      : speeds_(speeds),
        pool_(slab_bytes, tiers.host_budget_bytes, power_of_two),
        clock_(clock),
        cache_(*this, tiers.host_budget_bytes, tiers.disk, last_step_bytes) {}
  SimulatedHostAndDiskTier(const SimulatedHostAndDiskTier&) = delete;
  SimulatedHostAndDiskTier& operator=(const SimulatedHostAndDiskTier&) = delete;

  // Returns a piece with room. The host waits for the room.
  schedule::CachedPiecePtr put(int64_t bytes, bool may_spill);
  static double free_after(const schedule::SpillableActivationPiece& piece);  // earliest write, in ms
  void stored(const schedule::CachedPiecePtr& piece, double out_done);
  // `last_use`: end of the last copy from the room, in ms; nothing: there was none.
  void drop(const schedule::CachedPiecePtr& piece, std::optional<double> last_use = {});

  schedule::DiskSpillingHostCache& cache() { return cache_; }
  const schedule::DiskSpillingHostCache::Counters& counters() const { return cache_.counters(); }
  int64_t host_bytes() const { return pool_.leased_bytes(); }
  int64_t host_peak_bytes() const { return pool_.peak_leased_bytes(); }

 private:
  using Ranges = schedule::HostSlabBestFitAllocator<SimulatedLastCopyEndBeforeHostReuse>;
  struct Piece final : schedule::SpillableActivationPiece {
    bool in_host = false, has_request = false;
    Ranges::Range range;
    double written = 0, done = 0;  // ends of its write and of its last request
  };
  static Piece& of(schedule::SpillableActivationPiece& piece) { return static_cast<Piece&>(piece); }

  bool lease(schedule::SpillableActivationPiece& piece) override;
  void lack_room(schedule::SpillableActivationPiece& piece) override;
  void free_room(schedule::SpillableActivationPiece& piece) override;
  void write(schedule::SpillableActivationPiece& piece) override;
  void read(schedule::SpillableActivationPiece& piece) override;
  void free_block(schedule::SpillableActivationPiece&) override {}
  bool busy(const schedule::SpillableActivationPiece& piece) const override;
  void wait(schedule::SpillableActivationPiece& piece, Stall) override { clock_.host_waits_until(of(piece).done); }

  const Speeds speeds_;
  Ranges pool_;
  SimulatedComputeAndHostClock& clock_;
  schedule::DiskSpillingHostCache cache_;
  double write_free_ = 0, read_free_ = 0;
};

}  // namespace memtune::planner
