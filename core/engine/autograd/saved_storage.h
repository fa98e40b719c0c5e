// An activation of a training step: the content of one storage, wherever its bytes are. It lives from the op that
// writes it until backward no longer needs it. A value belongs to a storage, not to a tensor: all views share it, and
// so do all tensors that autograd saved. An in-place write starts a new value, so the content of a value never changes.
// The old bytes are lost unless a consumer kept them.
//
//                first consumer                        bytes()              last consumer ends
//   unretained ─── hold() ─────────────────────────────────────────────> held ──> unretained, or dropped if it has a
//       ├───────── start_offload() ──> offloaded ── reload() ─────────────┤         SavedStorageRecomputer
//       └─ to be recomputed: dropped ── SavedStorageRecomputer::make() ────────┘
//
// While a value is unretained or dropped, the step itself may still own the storage. The value keeps only a weak
// reference to it, so a reused address is not mistaken for the old storage. Thread: the training thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/plan/strategy/plan.h"
#include "core/record/trace/activation_event_recorder.h"

namespace memtune::autograd {

class SavedStorage;
using SavedStoragePtr = std::shared_ptr<SavedStorage>;

// The offloaded copy of a value. Destroyed with the value's last consumer, in any state.
class OffloadedStorageHandle {
 public:
  virtual ~OffloadedStorageHandle() = default;
  // Returns the bytes on the device, in compute stream order.
  virtual at::Storage reload() = 0;
  // The source storage is overwritten next, in compute stream order.
  virtual void before_overwrite() = 0;
};

// Recomputes a value.
class SavedStorageRecomputer {
 public:
  virtual ~SavedStorageRecomputer() = default;
  // Returns the bytes on the device, in compute stream order. Stores in `value` the bytes that must outlive the call.
  virtual at::Storage make(SavedStorage& value) = 0;
};

// A consumer that will need the bytes of a value. Counted while it lives; the value releases its bytes with the last
// one. Move-only.
class SavedStorageConsumerReference {
 public:
  enum class ConsumerKind { backward, rerun };  // a saved tensor; a recomputation that reads the value

  SavedStorageConsumerReference() = default;
  SavedStorageConsumerReference(SavedStoragePtr value, ConsumerKind by);
  SavedStorageConsumerReference(SavedStorageConsumerReference&& other) noexcept;
  SavedStorageConsumerReference& operator=(SavedStorageConsumerReference&& other) noexcept;
  ~SavedStorageConsumerReference() { end(); }

  // Stops counting; the value can still be accessed.
  void end() noexcept;

  explicit operator bool() const { return value_ != nullptr; }
  const SavedStoragePtr& value() const { return value_; }
  SavedStorage& operator*() const { return *value_; }
  SavedStorage* operator->() const { return value_.get(); }

 private:
  SavedStoragePtr value_;
  ConsumerKind by_ = ConsumerKind::backward;
  bool counts_ = false;
};

class SavedStorage {
 public:
  enum class State { unretained, held, offloaded, dropped };

  struct Origin {
    int op = -1;     // op in the program; -1: from outside of the step
    int output = 0;  // index of the output, lists flattened; kPrivateSave: saved only for the op's own backward
    int block = -1;  // block of that op
  };

  SavedStorage(const at::Storage& storage, const Origin& origin, plan::TensorPlacement place);
  // A value to be recomputed: dropped from the start.
  SavedStorage(const at::Storage& storage, const Origin& origin, std::shared_ptr<SavedStorageRecomputer> maker);
  SavedStorage(const SavedStorage&) = delete;
  SavedStorage& operator=(const SavedStorage&) = delete;

  State state() const;
  trace::ActivationOpOutputKey key() const { return {origin_.op, origin_.output, bytes_}; }
  int block() const { return origin_.block; }
  int64_t size_bytes() const { return bytes_; }
  plan::TensorPlacement place() const { return place_; }
  bool used() const { return backward_uses_ + rerun_uses_ > 0; }

  void hold(at::Storage bytes) { held_ = std::move(bytes); }
  void start_offload(std::shared_ptr<OffloadedStorageHandle> offloaded) { offloaded_ = std::move(offloaded); }

  // The storage if the step still owns it and it holds this value's bytes; else null.
  at::Storage live_storage() const;
  // The bytes if they are on the device now; else null.
  at::Storage on_device() const { return held_ ? held_ : live_storage(); }
  // Returns the bytes on the device, reloaded or recomputed if necessary, in compute stream order. Throws Error if they
  // are lost, and whatever OffloadedStorageHandle::reload() throws.
  at::Storage bytes();

  // An op is about to write into the storage: copies the bytes if a recomputation needs them. Bytes that only backward
  // needs are not copied. Such a backward would fail without hooks too, and unpack reports it.
  void before_overwrite();
  void overwritten() { overwritten_ = true; }

  // True if a block other than its own needs the value.
  bool crosses() const { return crosses_; }
  void add_consumer_block(int block) { crosses_ = crosses_ || block != origin_.block; }

 private:
  friend class SavedStorageConsumerReference;
  int& uses(SavedStorageConsumerReference::ConsumerKind by) {
    return by == SavedStorageConsumerReference::ConsumerKind::backward ? backward_uses_ : rerun_uses_;
  }
  void drop_bytes() noexcept;

  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  int64_t bytes_;
  Origin origin_;
  plan::TensorPlacement place_;
  bool overwritten_ = false;
  bool crosses_ = false;
  int backward_uses_ = 0, rerun_uses_ = 0;
  at::Storage held_;
  std::shared_ptr<OffloadedStorageHandle> offloaded_;
  std::shared_ptr<SavedStorageRecomputer> maker_;
};

}  // namespace memtune::autograd
