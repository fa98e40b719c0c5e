// Host memory for offloaded activations: page-locked, limited by a budget, with a scratch file behind it for pieces
// that may spill. DiskSpillingHostCache decides what stays in memory; this class leases, writes and reads.
//
// Thread: the training thread. It waits only for room (when the whole budget is being written to disk) and for late
// reads. Counters reports both waits.
#pragma once

#include <chrono>
#include <memory>

#include "core/engine/disk/scratch_block_store.h"
#include "core/engine/tier/host_memory_pool.h"
#include "core/plan/schedule/disk_spilling_host_cache.h"
#include "core/record/trace/activation_event_recorder.h"

namespace memtune::tier {

struct OffloadedActivationPiece final : schedule::SpillableActivationPiece {
  HostMemoryPool::Lease lease;         // empty when on_disk, and when `used` once its last request is done
  trace::ActivationOpOutputKey value;  // identifies the activation in the trace
  disk::ScratchFileBlockHandle block;  // its place in the scratch file, from `writing` on
  disk::RequestPtr request;            // the last write or read, if any
};
using HostTierPiecePtr = std::shared_ptr<OffloadedActivationPiece>;
inline HostTierPiecePtr tier_piece(const schedule::CachedPiecePtr& piece) {
  return std::static_pointer_cast<OffloadedActivationPiece>(piece);
}

class DiskSpillingActivationHostTier final : private schedule::DiskSpillingHostCacheBackend {
 public:
  // `store` null: nothing spills. `budget_bytes` 0: no limit. `power_of_two`: see HostMemoryPool.
  DiskSpillingActivationHostTier(device::Device& device, int64_t slab_bytes, int64_t budget_bytes,
                                 std::unique_ptr<disk::ScratchBlockStore> store, bool pinned = true,
                                 bool power_of_two = false);
  ~DiskSpillingActivationHostTier() override;
  DiskSpillingActivationHostTier(const DiskSpillingActivationHostTier&) = delete;
  DiskSpillingActivationHostTier& operator=(const DiskSpillingActivationHostTier&) = delete;

  // Limits later allocations. Memory that the pool has reserved stays, so the budget is at least that much.
  void set_budget(int64_t bytes);

  void begin_step();

  // Returns a piece with room in host memory. Wait for lease.free_after() before you write there, then call stored().
  // `out_done`: the event after which the bytes are complete. Throws OutOfHostMemoryError if budget or system has no
  // room, DiskFullError and DiskOrFileSystemError from the store.
  HostTierPiecePtr put(int64_t bytes, bool may_spill);
  void stored(const HostTierPiecePtr& piece, device::EventPtr out_done);

  // See DiskSpillingHostCache.
  bool read_ahead(const HostTierPiecePtr& piece) { return cache_.read_ahead(piece); }
  bool ready(const OffloadedActivationPiece& piece) const { return cache_.ready(piece); }
  // Returns the bytes of the piece in host memory; blocks while they are read from disk. Throws as put() does, and
  // DiskDataCorruptionError.
  const char* fetch(const HostTierPiecePtr& piece);
  // Ends the piece, in any state. Its room is free after `last_use`, the event of the copy from the bytes of fetch()
  // (null: there was no copy).
  void drop(const HostTierPiecePtr& piece, device::EventPtr last_use = nullptr) noexcept;

  // Frees the room of dropped pieces whose last request is done.
  void reap() { cache_.reap(); }

  // A disk request, recorded from start_recording() on.
  struct Io {
    trace::EventKind kind;  // disk_write, disk_read
    trace::ActivationOpOutputKey value;
    int64_t bytes;
    disk::RequestPtr request;
  };
  void start_recording() { recording_ = true; }
  std::vector<Io> stop_recording();  // waits for all of them

  struct Counters {
    int64_t disk_write_bytes = 0, disk_read_bytes = 0;  // of this step
    std::chrono::nanoseconds room_stall{0}, disk_stall{0};
  };
  Counters counters() const;
  schedule::DiskSpillingHostCache& cache() { return cache_; }
  const HostMemoryPool& pool() const { return pool_; }
  int64_t disk_bytes() const { return cache_.counters().disk_bytes; }  // held on the disk now
  int64_t peak_disk_bytes() const { return cache_.counters().peak_disk_bytes; }
  bool has_disk() const { return store_ != nullptr; }

 private:
  bool lease(schedule::SpillableActivationPiece& piece) override;
  void lack_room(schedule::SpillableActivationPiece& piece) override;
  void free_room(schedule::SpillableActivationPiece& piece) override;
  void write(schedule::SpillableActivationPiece& piece) override;
  void read(schedule::SpillableActivationPiece& piece) override;
  void free_block(schedule::SpillableActivationPiece& piece) override;
  bool busy(const schedule::SpillableActivationPiece& piece) const override;
  void wait(schedule::SpillableActivationPiece& piece, Stall stall) override;

  void pin_new_slabs();
  void record(trace::EventKind kind, const OffloadedActivationPiece& piece);

  HostMemoryPool pool_;
  size_t slabs_pinned_ = 0;  // number of slabs that are registered with the store
  int64_t budget_bytes_;
  std::unique_ptr<disk::ScratchBlockStore> store_;  // destroyed before the pool, because writes may still read from it
  std::chrono::nanoseconds room_stall_{0}, disk_stall_{0};
  bool recording_ = false;
  std::vector<Io> io_;
  schedule::DiskSpillingHostCache cache_;  // destroyed first, with the pieces that it holds
};

}  // namespace memtune::tier
