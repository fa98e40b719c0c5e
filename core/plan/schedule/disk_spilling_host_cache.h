// Decides what host memory keeps of the offloaded activations, and what goes to the disk behind it. Only what exceeds
// the budget is written. The oldest pieces are written first, since backward needs the newest first.
//
//   put ─> dirty ── write behind ──> writing ── room is needed ──> on_disk ── read ahead ──> reading ─> used
//            └───────────────────────────┴─────── copied back to the device ──────────────────────────────┘
//
// The class knows pieces only by size and state, so that the step simulator uses it too.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

namespace memtune::schedule {

// A part of an offloaded activation, in the size that host memory and disk take. Users derive from it.
struct SpillableActivationPiece {
  enum class State { dirty, writing, on_disk, reading, used };

  int64_t bytes = 0;
  bool may_spill = false;
  State state = State::dirty;

 private:
  friend class DiskSpillingHostCache;
  bool has_block = false;                                                 // on the disk
  std::list<std::shared_ptr<SpillableActivationPiece>>* queue = nullptr;  // of DiskSpillingHostCache, if it is in one
  std::list<std::shared_ptr<SpillableActivationPiece>>::iterator place = {};  // there
};
using CachedPiecePtr = std::shared_ptr<SpillableActivationPiece>;

// Host memory and disk: carries out what the cache decides. Calls may throw.
class DiskSpillingHostCacheBackend {
 public:
  enum class Stall { for_room, for_bytes };

  virtual ~DiskSpillingHostCacheBackend() = default;
  virtual bool lease(SpillableActivationPiece& piece) = 0;  // returns false if the budget has no room
  virtual void lack_room(
      SpillableActivationPiece& piece) = 0;  // nothing can make room for the piece: throws, or finds some elsewhere
  virtual void free_room(SpillableActivationPiece& piece) = 0;  // no request of the piece runs
  virtual void write(SpillableActivationPiece& piece) = 0;      // starts
  virtual void read(SpillableActivationPiece& piece) = 0;       // starts, into the leased room
  virtual void free_block(SpillableActivationPiece& piece) = 0;
  virtual bool busy(const SpillableActivationPiece& piece) const = 0;   // a request of the piece runs
  virtual void wait(SpillableActivationPiece& piece, Stall stall) = 0;  // until its request is done
};

class DiskSpillingHostCache {
 public:
  // `storage` must outlive it. `disk`: pieces may spill. `last_step_bytes`: put by the previous step; 0: none or
  // unknown.
  DiskSpillingHostCache(DiskSpillingHostCacheBackend& storage, int64_t budget_bytes, bool disk,
                        int64_t last_step_bytes = 0)
      : storage_(storage), budget_bytes_(budget_bytes), disk_(disk), last_step_bytes_(last_step_bytes) {}

  void set_budget(int64_t bytes) { budget_bytes_ = bytes; }
  void begin_step();

  // Finds room for a new piece of piece.bytes.
  void put(SpillableActivationPiece& piece, bool may_spill);
  // The copy into the room of the piece was issued.
  void stored(const CachedPiecePtr& piece);
  // Starts to read a piece that is on disk, without taking room from another piece. Returns false if there is no room.
  bool read_ahead(const CachedPiecePtr& piece);
  // Whether fetch() would return at once.
  bool ready(const SpillableActivationPiece& piece) const;
  // Afterwards the bytes of the piece are in host memory; waits while they are read from disk.
  void fetch(SpillableActivationPiece& piece);
  // Ends the piece, in any state. A second call has no effect.
  void drop(const CachedPiecePtr& piece);
  // Frees the room of dropped pieces whose last request is done.
  void reap();
  // Waits for the requests of dropped pieces.
  void finish() noexcept;

  struct Counters {
    int64_t put_bytes = 0, disk_write_bytes = 0, disk_read_bytes = 0;  // of this step
    int64_t disk_bytes = 0, peak_disk_bytes = 0;                       // held on the disk
  };
  const Counters& counters() const { return counters_; }
  bool has_disk() const { return disk_; }

 private:
  using State = SpillableActivationPiece::State;
  using Queue = std::list<CachedPiecePtr>;

  void enter(Queue& queue, const CachedPiecePtr& piece);
  CachedPiecePtr leave(Queue& queue, Queue::iterator place);
  int64_t dirty_limit() const;
  void start_write(const CachedPiecePtr& piece);
  void start_read(SpillableActivationPiece& piece);
  void take_room(SpillableActivationPiece& piece);
  bool make_room();
  void leave_host(SpillableActivationPiece& piece, State state);
  void leave_disk(SpillableActivationPiece& piece);

  DiskSpillingHostCacheBackend& storage_;
  int64_t budget_bytes_;
  const bool disk_;
  int64_t last_step_bytes_;
  Queue dirty_, writing_;                // oldest first
  Queue ahead_;                          // by read_ahead(), in that order
  std::vector<CachedPiecePtr> leaving_;  // dropped, but their write or read still runs
  int64_t dirty_bytes_ = 0;              // of dirty_
  Counters counters_;
};

}  // namespace memtune::schedule
