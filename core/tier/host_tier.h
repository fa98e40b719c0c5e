// Where bytes wait outside the device: page-locked host memory up to a budget and, for pieces that may spill, a scratch
// file behind it. Host memory is a cache over the disk: only what exceeds the budget is written, the oldest first,
// since backward needs the newest first.
//
//   put ─> dirty ── write behind ──> writing ── room is needed ──> on_disk ── read ahead ──> reading ─> used
//            └───────────────────────────┴─────── copied back to the device ──────────────────────────────┘
//
// Thread: the one that trains. It waits only for room (every byte of the budget on its way to the disk) and for reads
// that are late; both are counted.
#pragma once

#include <chrono>
#include <deque>
#include <memory>

#include "core/disk/block_store.h"
#include "core/tier/host_pool.h"
#include "core/trace/recorder.h"

namespace memtune::tier {

struct Piece {
  enum class State { dirty, writing, on_disk, reading, used };

  int64_t bytes = 0;
  bool may_spill = false;
  State state = State::dirty;
  HostPool::Lease lease;     // in every state but on_disk and used
  trace::ValueKey value;     // whose it is, for the trace
  disk::Block block;         // its place on the disk, from `writing` on
  disk::RequestPtr request;  // writing, reading
};
using PiecePtr = std::shared_ptr<Piece>;

class HostTier {
 public:
  // `store` null: nothing spills. A budget of 0 is none. `power_of_two`: as of HostPool.
  HostTier(device::Device& device, int64_t slab_bytes, int64_t budget_bytes, std::unique_ptr<disk::BlockStore> store,
           bool pinned = true, bool power_of_two = false);
  ~HostTier();
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // From now on; what is taken stays taken.
  void set_budget(int64_t bytes);

  void begin_step();

  // A piece with room in host memory; whoever writes there waits for lease.free_after(). Then tell stored(): behind
  // `out_done` the bytes are there. Throws OutOfHostMemory when the budget or the system has no room, DiskFull and
  // DiskError.
  PiecePtr put(int64_t bytes, bool may_spill);
  void stored(const PiecePtr& piece, device::EventPtr out_done);

  // Begins to read the piece when it is on disk and there is room without taking any from another; false: no room.
  bool read_ahead(const PiecePtr& piece);
  // Whether fetch() would return at once.
  bool ready(const Piece& piece) const;
  // The piece's bytes in host memory. Blocks while they come from the disk.
  const char* fetch(const PiecePtr& piece);
  // Nobody needs the piece any more, whatever its state; its room is free behind `last_use`, the copy of what fetch()
  // gave (null: there was none).
  void drop(const PiecePtr& piece, device::EventPtr last_use = nullptr) noexcept;

  // Takes back the room of dropped pieces whose last request is done.
  void reap();

  // A request for the disk, kept from start_recording() on.
  struct Io {
    trace::EventKind kind;  // disk_write, disk_read
    trace::ValueKey value;
    int64_t bytes;
    disk::RequestPtr request;
  };
  void start_recording() { recording_ = true; }
  std::vector<Io> stop_recording();  // all are done

  struct Counters {
    int64_t disk_write_bytes = 0, disk_read_bytes = 0;  // of this step
    std::chrono::nanoseconds room_stall{0}, disk_stall{0};
  };
  const Counters& counters() const { return counters_; }
  const HostPool& pool() const { return pool_; }
  int64_t disk_bytes() const { return disk_bytes_; }  // held on the disk now
  int64_t peak_disk_bytes() const { return peak_disk_bytes_; }
  bool has_disk() const { return store_ != nullptr; }

 private:
  using State = Piece::State;
  using Queue = std::deque<std::weak_ptr<Piece>>;

  int64_t dirty_limit() const;
  void start_write(const PiecePtr& piece);
  void start_read(Piece& piece, HostPool::Lease lease);
  HostPool::Lease room(int64_t bytes);
  void tell_store_of_slabs();
  bool make_room();
  void leave_host(Piece& piece, State state);
  void leave_disk(Piece& piece);

  HostPool pool_;
  size_t slabs_told_ = 0;  // slabs of the pool that the store knows
  int64_t budget_bytes_;
  std::unique_ptr<disk::BlockStore> store_;  // goes before the pool: it may still write from there
  Queue dirty_, writing_;                    // oldest first; entries whose piece has moved on are stale
  Queue ahead_;                              // read before it was asked for, in that order
  std::vector<PiecePtr> leaving_;            // used, but a write or read of theirs still runs
  int64_t dirty_bytes_ = 0;
  int64_t put_bytes_ = 0, last_step_bytes_ = 0;
  int64_t disk_bytes_ = 0, peak_disk_bytes_ = 0;
  Counters counters_;
  bool recording_ = false;
  std::vector<Io> io_;
};

}  // namespace memtune::tier
