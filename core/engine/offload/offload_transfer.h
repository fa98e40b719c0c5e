// The offload of one value to host or disk and its reload. OffloadEngine drives it.
//
//   gathered ── copied out, event recorded ──> stashed ── compute waits for the event ──> offloaded
//      │                                          │                                           │ prefetched or
//      └──> returned: still on the device <───────┘                                           v on request
//                                                 returned <── compute waits for it ── reloading
//
// The source stays allocated while gathered and stashed. Disk values are copied in pieces, so that host memory can be
// smaller than the value. A transfer can be destroyed in any state: no copy then touches freed memory.
#pragma once

#include <vector>

#include "core/base/device/device.h"
#include "core/engine/autograd/saved_storage.h"
#include "core/engine/tier/host_tier.h"
#include "core/plan/schedule/copy_sizes.h"

namespace memtune::offload {

class OffloadEngine;

class OffloadTransfer final : public autograd::OffloadedCopy {
 public:
  enum class State { gathered, stashed, offloaded, reloading, returned };

  // `group`: blocks that ended before it. `number`: transfers sent before it. `save`: saved tensors counted before it.
  // `op`: the op that saved it.
  OffloadTransfer(OffloadEngine& offload, const autograd::SavedStorage& value, int group, size_t number, int64_t save,
                  int op)
      : offload_(offload),
        key_(value.key()),
        bytes_(value.size_bytes()),
        piece_bytes_(value.place() == plan::TensorPlacement::disk ? schedule::kDiskPieceBytes : bytes_),
        on_disk_(value.place() == plan::TensorPlacement::disk),
        group_(group),
        op_(op),
        number_(number),
        save_(save) {}
  ~OffloadTransfer() override;
  OffloadTransfer(const OffloadTransfer&) = delete;
  OffloadTransfer& operator=(const OffloadTransfer&) = delete;

  at::Storage reload() override;
  void before_overwrite() override;

 private:
  friend class OffloadEngine;

  int64_t begin(size_t piece) const { return static_cast<int64_t>(piece) * piece_bytes_; }
  bool all_out() const { return begin(pieces_.size()) >= bytes_; }
  bool all_back() const { return pieces_back_ == pieces_.size(); }

  OffloadEngine& offload_;
  const trace::ValueKey key_;
  const int64_t bytes_, piece_bytes_;
  const bool on_disk_;
  const int group_, op_;
  const size_t number_;
  const int64_t save_;
  State state_ = State::gathered;
  std::vector<tier::HostTierPiecePtr> pieces_;  // pieces whose copy out was issued
  size_t pieces_back_ = 0;                      // number of pieces whose copy back was issued
  at::Storage source_;                          // held while gathered and stashed
  at::Storage target_;                          // held while coming back
  device::EventPtr out_done_, in_done_;
};

}  // namespace memtune::offload
