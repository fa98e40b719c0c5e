// Record of one executed op, so that it can be recomputed: its inputs (as values and views of them), random state, grad
// mode, autocast state and outputs. Lists are copied as they were at the call. Instances and values form the chain that
// a recomputation follows. The chain lives as long as a consumer needs it.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "core/engine/autograd/saved_storage.h"
#include "core/engine/autograd/view_geometry.h"
#include "core/model/ops/autocast.h"
#include "core/model/program/program.h"

namespace memtune::checkpoint {

class RecomputeEngine;

struct RecordedOpInput {
  autograd::SavedStorageConsumerReference use;  // empty: use `direct`
  autograd::ViewGeometry geometry;              // of the view
  bool requires_grad = false;
  at::Tensor direct;  // parameters, tensors that are not plain bytes, undefined tensors
};

// One argument: a plain value, a tensor, or a list of tensors (optional ones too).
struct RecordedOpArgument {
  enum class Form { plain, tensor, list, optional_list };
  c10::IValue value;  // if form is plain
  Form form = Form::plain;
  int tensors = 0;  // number of entries of RecordedOp::inputs, in order
};

struct RecordedOpOutputToRecompute {
  std::weak_ptr<autograd::SavedStorage> value;
  int index = 0;           // index among the op's result tensors, lists flattened; negative: -1 - index of the written
                           // argument
  caffe2::TypeMeta dtype;  // to check that the recomputed output is the same
  int64_t elements = 0;
};

struct RecordedOp final : autograd::SavedStorageRecomputer {
  explicit RecordedOp(RecomputeEngine& engine) : engine(engine) {}
  RecordedOp(const RecordedOp&) = delete;
  RecordedOp& operator=(const RecordedOp&) = delete;

  at::Storage make(autograd::SavedStorage& value) override;

  bool writes() const {
    return std::any_of(outputs.begin(), outputs.end(),
                       [](const RecordedOpOutputToRecompute& output) { return output.index < 0; });
  }

  RecomputeEngine& engine;
  const program::Op* op = nullptr;
  int block = -1;  // block of the op; -1: outside of blocks
  c10::SmallVector<RecordedOpArgument, 6> arguments;
  c10::SmallVector<RecordedOpInput, 2> inputs;               // of all arguments
  c10::SmallVector<RecordedOpOutputToRecompute, 1> outputs;  // those to be recomputed
  at::Generator generator;                                   // generator that the op draws from; undefined: none
  at::Tensor generator_state;
  bool grad_mode = true;
  ops::AutocastState autocast;
  std::map<int, at::Tensor> captured;  // private saved tensors that have a consumer, by index of the save
  int saves = 0;                       // number of tensors that autograd saved while the op ran
  bool done = false;                   // already recomputed
};
using RecordedOpPtr = std::shared_ptr<RecordedOp>;

// A consumer of a tensor that an op saved only for its own backward. Recomputing the op captures the tensor while this
// object lives. Move-only.
class RecomputedPrivateSaveHandle {
 public:
  // `save`: index of the save among those of the op.
  RecomputedPrivateSaveHandle(RecordedOpPtr instance, int save) : instance_(std::move(instance)), save_(save) {
    instance_->captured[save_];
  }
  RecomputedPrivateSaveHandle(RecomputedPrivateSaveHandle&&) noexcept = default;
  RecomputedPrivateSaveHandle& operator=(RecomputedPrivateSaveHandle&& other) noexcept {
    std::swap(instance_, other.instance_);
    std::swap(save_, other.save_);
    return *this;
  }
  ~RecomputedPrivateSaveHandle() {
    if (instance_) instance_->captured.erase(save_);
  }

  int op() const { return instance_->op->id; }
  at::Tensor tensor() const;  // recomputes the op if it was not yet

 private:
  RecordedOpPtr instance_;
  int save_;
};

}  // namespace memtune::checkpoint
