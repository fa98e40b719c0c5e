// The offload of one activation and its reload, as the schedules of copies see it, and what carries their decisions
// out.
//
//   gathered ── copied out ──> stashed ── compute waits for the copy ──> offloaded
//      │                          │                                          │ prefetched or on request
//      └──> returned: still on the device <──┘                               v
//                                 returned <── compute waits for it ── reloading
//
// The source stays allocated while gathered and stashed. Disk values are copied in pieces, so that host memory can be
// smaller than the value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/schedule/copy_sizes.h"
#include "core/plan/schedule/disk_spilling_host_cache.h"

namespace memtune::schedule {

// Users derive from it and own it. It must be forgotten before it is destroyed
// (OnlineActivationTransferScheduler::forget).
struct ActivationOffloadAndReloadState {
  enum class State { gathered, stashed, offloaded, reloading, returned };

  ActivationOffloadAndReloadState(int64_t bytes, bool on_disk, int op) : bytes(bytes), on_disk(on_disk), op(op) {}

  bool has_source() const { return state == State::gathered || state == State::stashed; }
  int64_t begin(size_t piece) const { return static_cast<int64_t>(piece) * piece_bytes(); }
  int64_t piece_bytes() const { return on_disk ? kDiskPieceBytes : bytes; }
  bool all_out() const { return begin(pieces.size()) >= bytes; }
  bool all_back() const { return pieces_back == pieces.size(); }

  const int64_t bytes;
  const bool on_disk;
  const int op;       // that saved it
  int group = 0;      // number of blocks that ended before it
  size_t number = 0;  // of transfers started before it
  int64_t save = 0;   // saved tensors counted before it
  State state = State::gathered;
  std::vector<CachedPiecePtr> pieces;  // whose copies out were issued
  size_t pieces_back = 0;              // number of pieces whose copies back were issued
};

// Copies of one direction that are issued in one call.
struct ActivationPieceCopyBatchEntry {
  ActivationOffloadAndReloadState* transfer;
  CachedPiecePtr piece;
  int64_t begin;  // offset of the piece in the transfer
};
using CopyBatch = std::vector<ActivationPieceCopyBatchEntry>;

// Carries the decisions out. Calls may throw.
class ActivationTransferBackend {
 public:
  virtual ~ActivationTransferBackend() = default;
  virtual int64_t allocated_bytes() const = 0;  // on the device now

  virtual void begin_out() = 0;  // later copies out start after the compute queued so far
  virtual CachedPiecePtr put(ActivationOffloadAndReloadState& transfer,
                             int64_t bytes) = 0;                       // a piece with room in host memory
  virtual void copy_out(const CopyBatch& batch) = 0;                   // starts
  virtual void stored(const ActivationPieceCopyBatchEntry& part) = 0;  // its copy out was started
  // Compute waits for the copy out unless it has ended; then the source is freed.
  virtual void free_source(ActivationOffloadAndReloadState& transfer) = 0;

  // Allocates the targets. Later copies back start after the compute queued so far.
  virtual void begin_in(std::span<ActivationOffloadAndReloadState* const> transfers) = 0;
  virtual void copy_in(const CopyBatch& batch) = 0;                     // starts; the pieces are in host memory
  virtual void drop(const ActivationPieceCopyBatchEntry& part) = 0;     // its copy back was started
  virtual void wait_in(ActivationOffloadAndReloadState& transfer) = 0;  // compute waits for its copies back
};

}  // namespace memtune::schedule
