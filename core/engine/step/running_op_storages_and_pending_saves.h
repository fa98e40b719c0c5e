// Storages that the running op reads, writes and saves for backward. Its new storages are unknown until it returns, so
// saved tensors of these are resolved then.
#pragma once

#include <vector>

#include "core/engine/checkpoint/recorded_op.h"
#include "core/engine/step/saved_tensor_handle.h"
#include "core/engine/step/storage_to_activation_table.h"
#include "core/model/program/program.h"

namespace memtune::step {

class RunningOpStoragesAndPendingSaves {
 public:
  using Storage = StorageToActivationTable::Storage;

  struct Written {  // a storage that the op writes into
    Storage storage;
    int argument;
    at::Tensor tensor;                // kept because the op may resize it
    uint32_t version;                 // before the op
    autograd::SavedStoragePtr value;  // before the op; null: none
    bool from_outside() const { return !value || value->key().op < 0; }
  };

  // A saved tensor that is resolved when the op returns, and its origin under autocast.
  struct Waiting {
    SavedTensorHandle* saved;
    Storage storage;
    bool cast_parameter = false;
    int cast_source = -1;  // index of the op's input that was cast; -1: none
  };

  // `autocast`: whether autocast is on around the op. Inside the op it is already off.
  void begin(const program::Op& op, const program::Stack& inputs, const StorageToActivationTable& values,
             bool autocast);
  void end() noexcept;

  explicit operator bool() const { return op_ != nullptr; }
  const program::Op& op() const { return *op_; }

  bool reads(Storage storage) const;
  const std::vector<Storage>& read() const { return read_; }  // of its arguments, in order
  const std::vector<Written>& written() const { return written_; }
  const Written* writes(Storage storage) const;                           // null: it does not
  bool writes_outside() const;                                            // writes to a tensor from outside of the step
  const at::Tensor& input(int index) const { return inputs_.at(index); }  // only under autocast

  int next_save() { return saves_++; }
  int saves() const { return saves_; }

  void wait_for_end(SavedTensorHandle& saved, const at::Tensor& tensor);
  bool waits() const { return !waiting_.empty(); }
  void forget(const SavedTensorHandle& saved) noexcept;
  std::vector<Waiting> take_waiting() { return std::exchange(waiting_, {}); }

  checkpoint::RecordedOpPtr instance;  // set if the op may be recomputed

 private:
  const program::Op* op_ = nullptr;
  bool autocast_ = false;
  int saves_ = 0;
  std::vector<Storage> read_;
  std::vector<at::Tensor> inputs_;
  std::vector<Written> written_;
  std::vector<Waiting> waiting_;
};

}  // namespace memtune::step
