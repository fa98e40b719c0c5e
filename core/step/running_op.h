// What the running op reads, writes into, and saves for backward. Storages that it makes are not known before it has
// returned, so what it saves of those waits until then.
#pragma once

#include <vector>

#include "core/checkpoint/instance.h"
#include "core/program/program.h"
#include "core/step/saved_tensor.h"
#include "core/step/value_table.h"

namespace memtune::step {

class RunningOp {
 public:
  using Storage = ValueTable::Storage;

  struct Written {  // a storage that the op writes into
    Storage storage;
    int argument;
    at::Tensor tensor;         // itself: the op may give it other sizes
    uint32_t version;          // before the op
    autograd::ValuePtr value;  // before the op; null: none
    bool from_outside() const { return !value || value->key().op < 0; }
  };

  // A saved tensor that is resolved when the op has returned, and where autocast got it from.
  struct Waiting {
    SavedTensor* saved;
    Storage storage;
    bool cast_parameter = false;
    int cast_source = -1;  // the op's input that it is the cast copy of
  };

  // `autocast`: around the op; while it runs it is switched off already.
  void begin(const program::Op& op, const program::Stack& inputs, const ValueTable& values, bool autocast);
  void end() noexcept;

  explicit operator bool() const { return op_ != nullptr; }
  const program::Op& op() const { return *op_; }

  bool reads(Storage storage) const;
  const std::vector<Storage>& read() const { return read_; }  // by its arguments, in order
  const std::vector<Written>& written() const { return written_; }
  const Written* writes(Storage storage) const;                           // null: it does not
  bool writes_outside() const;                                            // into what comes from outside of the step
  const at::Tensor& input(int index) const { return inputs_.at(index); }  // under autocast

  int next_save() { return saves_++; }
  int saves() const { return saves_; }

  void wait_for_end(SavedTensor& saved, const at::Tensor& tensor);
  bool waits() const { return !waiting_.empty(); }
  void forget(const SavedTensor& saved) noexcept;
  std::vector<Waiting> take_waiting() { return std::exchange(waiting_, {}); }

  checkpoint::InstancePtr instance;  // recorded, when it may have to be run again

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
