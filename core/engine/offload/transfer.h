// The offload of one value to host or disk and its reload. Offload drives it.
//
//   send ──> gathered ── copied out, event recorded ──> stashed ── compute waits for the event ──> away
//               │                                          │                                         │ prefetched or
//          bring_back: still on the device <───────────────┘                                         v on request
//                                                        returned <── compute waits for it ── coming_back
//
// The source stays allocated while gathered and stashed. Disk values are copied in pieces, so that host memory can be
// smaller than the value. A transfer can be destroyed in any state: no copy then touches freed memory.
#pragma once

#include <vector>

#include "core/engine/autograd/saved_value.h"
#include "core/base/device/device.h"
#include "core/engine/tier/host_tier.h"

namespace memtune::offload {

class Offload;

class Transfer final : public autograd::Away {
 public:
  enum class State { gathered, stashed, away, coming_back, returned };

  // `group`: blocks that ended before it. `number`: transfers sent before it. `save`: saved tensors counted before it.
  // `op`: the op that saved it.
  Transfer(Offload& offload, const autograd::SavedValue& value, int group, size_t number, int64_t save, int op)
      : offload_(offload),
        key_(value.key()),
        bytes_(value.size_bytes()),
        piece_bytes_(value.place() == plan::Place::disk ? kDiskPieceBytes : bytes_),
        on_disk_(value.place() == plan::Place::disk),
        group_(group),
        op_(op),
        number_(number),
        save_(save) {}
  ~Transfer() override;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  at::Storage bring_back() override;
  void before_overwrite() override;

 private:
  friend class Offload;
  static constexpr int64_t kDiskPieceBytes = 4 << 20;

  int64_t begin(size_t piece) const { return static_cast<int64_t>(piece) * piece_bytes_; }
  bool all_out() const { return begin(pieces_.size()) >= bytes_; }
  bool all_back() const { return pieces_back_ == pieces_.size(); }

  Offload& offload_;
  const trace::ValueKey key_;
  const int64_t bytes_, piece_bytes_;
  const bool on_disk_;
  const int group_, op_;
  const size_t number_;
  const int64_t save_;
  State state_ = State::gathered;
  std::vector<tier::PiecePtr> pieces_;  // pieces whose copy out was issued
  size_t pieces_back_ = 0;              // number of pieces whose copy back was issued
  at::Storage source_;                  // held while gathered and stashed
  at::Storage target_;                  // held while coming back
  device::EventPtr out_done_, in_done_;
};

}  // namespace memtune::offload
