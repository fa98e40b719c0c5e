// Host memory for offloaded activations: page-locked, limited by a budget, with a scratch file behind it for pieces
// that may spill. Host memory is a cache over the disk, so only what exceeds the budget is written. The oldest pieces
// are written first, since backward needs the newest first.
//
//   put ─> dirty ── write behind ──> writing ── room is needed ──> on_disk ── read ahead ──> reading ─> used
//            └───────────────────────────┴─────── copied back to the device ──────────────────────────────┘
//
// Thread: the training thread. It waits only for room (when the whole budget is being written to disk) and for late
// reads. Counters reports both waits.
#pragma once

#include <chrono>
#include <deque>
#include <memory>

#include "core/engine/disk/block_store.h"
#include "core/engine/tier/host_memory_pool.h"
#include "core/record/trace/value_event_recorder.h"

namespace memtune::tier {

struct HostTierPiece {
  enum class State { dirty, writing, on_disk, reading, used };

  int64_t bytes = 0;
  bool may_spill = false;
  State state = State::dirty;
  HostMemoryPool::Lease lease;  // empty when on_disk, and when `used` once its last request is done
  trace::ValueKey value;        // identifies the activation in the trace
  disk::ScratchBlock block;     // its place in the scratch file, from `writing` on
  disk::RequestPtr request;     // the last write or read, if any
};
using HostTierPiecePtr = std::shared_ptr<HostTierPiece>;

class HostTier {
 public:
  // `store` null: nothing spills. `budget_bytes` 0: no limit. `power_of_two`: see HostMemoryPool.
  HostTier(device::Device& device, int64_t slab_bytes, int64_t budget_bytes, std::unique_ptr<disk::BlockStore> store,
           bool pinned = true, bool power_of_two = false);
  ~HostTier();
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // Limits later allocations. Memory that the pool has reserved stays, so the budget is at least that much.
  void set_budget(int64_t bytes);

  void begin_step();

  // Returns a piece with room in host memory. Wait for lease.free_after() before you write there, then call stored().
  // `out_done`: the event after which the bytes are complete. Throws OutOfHostMemoryError if budget or system has no
  // room, DiskFullError and DiskError from the store.
  HostTierPiecePtr put(int64_t bytes, bool may_spill);
  void stored(const HostTierPiecePtr& piece, device::EventPtr out_done);

  // Starts to read a piece that is on disk, without taking room from another piece. Returns false if there is no room.
  bool read_ahead(const HostTierPiecePtr& piece);
  // Whether fetch() would return at once.
  bool ready(const HostTierPiece& piece) const;
  // Returns the bytes of the piece in host memory; blocks while they are read from disk. Throws as put() does, and
  // CorruptBlockError.
  const char* fetch(const HostTierPiecePtr& piece);
  // Ends the piece, in any state. Its room is free after `last_use`, the event of the copy from the bytes of fetch()
  // (null: there was no copy).
  void drop(const HostTierPiecePtr& piece, device::EventPtr last_use = nullptr) noexcept;

  // Frees the room of dropped pieces whose last request is done.
  void reap();

  // A disk request, recorded from start_recording() on.
  struct Io {
    trace::EventKind kind;  // disk_write, disk_read
    trace::ValueKey value;
    int64_t bytes;
    disk::RequestPtr request;
  };
  void start_recording() { recording_ = true; }
  std::vector<Io> stop_recording();  // waits for all of them

  struct Counters {
    int64_t disk_write_bytes = 0, disk_read_bytes = 0;  // of this step
    std::chrono::nanoseconds room_stall{0}, disk_stall{0};
  };
  const Counters& counters() const { return counters_; }
  const HostMemoryPool& pool() const { return pool_; }
  int64_t disk_bytes() const { return disk_bytes_; }  // held on the disk now
  int64_t peak_disk_bytes() const { return peak_disk_bytes_; }
  bool has_disk() const { return store_ != nullptr; }

 private:
  using State = HostTierPiece::State;
  using Queue = std::deque<std::weak_ptr<HostTierPiece>>;

  int64_t dirty_limit() const;
  void start_write(const HostTierPiecePtr& piece);
  void start_read(HostTierPiece& piece, HostMemoryPool::Lease lease);
  HostMemoryPool::Lease room(int64_t bytes);
  void pin_new_slabs();
  bool make_room();
  void leave_host(HostTierPiece& piece, State state);
  void leave_disk(HostTierPiece& piece);

  HostMemoryPool pool_;
  size_t slabs_pinned_ = 0;  // number of slabs that are registered with the store
  int64_t budget_bytes_;
  std::unique_ptr<disk::BlockStore> store_;  // destroyed before the pool, because writes may still read from it
  Queue dirty_, writing_;                    // oldest first; pieces in another state are skipped
  Queue ahead_;                              // by read_ahead(), in that order
  std::vector<HostTierPiecePtr> leaving_;    // dropped, but their write or read still runs
  int64_t dirty_bytes_ = 0;
  int64_t put_bytes_ = 0, last_step_bytes_ = 0;
  int64_t disk_bytes_ = 0, peak_disk_bytes_ = 0;
  Counters counters_;
  bool recording_ = false;
  std::vector<Io> io_;
};

}  // namespace memtune::tier
