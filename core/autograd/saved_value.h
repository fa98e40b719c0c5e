// One value of a training step: bytes that an op made and that backward may want, wherever they are. A value belongs to
// a storage, not to a tensor: all views of it, and everyone who saved one, share it. An in-place write begins a new
// value (the old one's bytes are gone unless somebody kept them), so a value's content never changes.
//
//               a first use                           bytes()              the last use ends
//   passing ──── hold() ───────────────────────────────────────> held ──> passing, or dropped where there is a maker
//      ├──────── send() ────> away ───── Away::bring_back() ───────┤
//      └─ made to be dropped: dropped ── Maker::make() ────────────┘
//
// While a value is passing or dropped the step itself may still hold the storage, which the value knows weakly: an
// address that was freed and handed out again is another storage. Thread: the one that trains.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/config/plan.h"
#include "core/trace/recorder.h"

namespace memtune::autograd {

class SavedValue;
using ValuePtr = std::shared_ptr<SavedValue>;

// The value's bytes are elsewhere. Dies in any state, with the last use of the value.
class Away {
 public:
  virtual ~Away() = default;
  // The bytes on the device, in the order of the compute stream.
  virtual at::Storage bring_back() = 0;
  // The storage that the bytes come from is overwritten next, in the order of the compute stream.
  virtual void before_overwrite() = 0;
};

// The value can be made again.
class Maker {
 public:
  virtual ~Maker() = default;
  // The bytes on the device, in the order of the compute stream. Holds in `value` what has to outlive the call.
  virtual at::Storage make(SavedValue& value) = 0;
};

// Somebody who will want a value's bytes; counted for as long as it lives. With the last one the value lets its bytes
// go. Move-only.
class Use {
 public:
  enum class By { backward, rerun };  // a saved tensor; a recomputation that starts from the value

  Use() = default;
  Use(ValuePtr value, By by);
  Use(Use&& other) noexcept;
  Use& operator=(Use&& other) noexcept;
  ~Use() { end(); }

  // Counts no more; the value can still be reached.
  void end() noexcept;

  explicit operator bool() const { return value_ != nullptr; }
  const ValuePtr& value() const { return value_; }
  SavedValue& operator*() const { return *value_; }
  SavedValue* operator->() const { return value_.get(); }

 private:
  ValuePtr value_;
  By by_ = By::backward;
  bool counts_ = false;
};

class SavedValue {
 public:
  enum class State { passing, held, away, dropped };

  struct Origin {
    int op = -1;     // of the program; -1: from outside
    int output = 0;  // which of its outputs, lists flattened; kPrivate: saved for itself
    int block = -1;  // that op's
  };

  SavedValue(const at::Storage& storage, const Origin& origin, config::Place place);
  // Dropped from the beginning.
  SavedValue(const at::Storage& storage, const Origin& origin, std::shared_ptr<Maker> maker);
  SavedValue(const SavedValue&) = delete;
  SavedValue& operator=(const SavedValue&) = delete;

  State state() const;
  trace::ValueKey key() const { return {origin_.op, origin_.output, bytes_}; }
  int block() const { return origin_.block; }
  int64_t size_bytes() const { return bytes_; }
  config::Place place() const { return place_; }
  bool used() const { return backward_uses_ + rerun_uses_ > 0; }

  void hold(at::Storage bytes) { held_ = std::move(bytes); }
  void send(std::shared_ptr<Away> away) { away_ = std::move(away); }

  // The storage that the step itself still holds, when its bytes are this value's.
  at::Storage alive() const;
  // The bytes where they are on the device now; null: they are not.
  at::Storage on_device() const { return held_ ? held_ : alive(); }
  // The bytes on the device, brought back or made again, in the order of the compute stream. Throws Error when they
  // cannot be had any more, and what bringing back throws.
  at::Storage bytes();

  // An op is about to write into the storage: what recomputations start from is copied. (What backward alone wants is
  // not: its backward would be wrong without hooks too, and the saved tensor says so.)
  void before_overwrite();
  void overwritten() { overwritten_ = true; }

  // Whether another block than its own wants it.
  bool crosses() const { return crosses_; }
  void wanted_in(int block) { crosses_ = crosses_ || block != origin_.block; }

 private:
  friend class Use;
  int& uses(Use::By by) { return by == Use::By::backward ? backward_uses_ : rerun_uses_; }
  void let_go() noexcept;

  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  int64_t bytes_;
  Origin origin_;
  config::Place place_;
  bool overwritten_ = false;
  bool crosses_ = false;
  int backward_uses_ = 0, rerun_uses_ = 0;
  at::Storage held_;
  std::shared_ptr<Away> away_;
  std::shared_ptr<Maker> maker_;
};

}  // namespace memtune::autograd
