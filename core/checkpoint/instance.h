// One executed op, remembered so that it can be run again: what went in (as values and views of them; lists as they
// were then), the random state, grad mode and autocast, what came out. Instances and values form the chain that a
// recompute walks; it lives as long as something needs it.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "core/autograd/autocast.h"
#include "core/autograd/geometry.h"
#include "core/autograd/saved_value.h"
#include "core/program/program.h"

namespace memtune::checkpoint {

class Recompute;

struct TensorInput {
  autograd::Use use;            // none: `direct` is used as it is
  autograd::Geometry geometry;  // of the view
  bool requires_grad = false;
  at::Tensor direct;  // parameters, tensors of other kinds, undefined ones
};

// One argument: a plain value, a tensor, or a list of tensors (optional ones too).
struct RecordedArgument {
  enum class Form { plain, tensor, list, optional_list };
  c10::IValue value;  // where it is plain
  Form form = Form::plain;
  int tensors = 0;  // so many of Instance::inputs, in order
};

struct Output {
  std::weak_ptr<autograd::SavedValue> value;
  int index = 0;           // among the op's tensors, lists flattened; negative: -1 - (number of the written argument)
  caffe2::TypeMeta dtype;  // for the check that a rerun makes the same
  int64_t elements = 0;
};

struct Instance final : autograd::Maker {
  explicit Instance(Recompute& engine) : engine(engine) {}
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  at::Storage make(autograd::SavedValue& value) override;

  bool writes() const {
    return std::any_of(outputs.begin(), outputs.end(), [](const Output& output) { return output.index < 0; });
  }

  Recompute& engine;
  const program::Op* op = nullptr;
  int block = -1;  // the op's; -1: outside of blocks
  c10::SmallVector<RecordedArgument, 6> arguments;
  c10::SmallVector<TensorInput, 2> inputs;  // of all arguments
  c10::SmallVector<Output, 1> outputs;      // that are made again
  at::Generator generator;                  // that the op draws from; undefined: it draws nothing
  at::Tensor generator_state;
  bool grad_mode = true;
  autograd::Autocast autocast;
  std::map<int, at::Tensor> captured;  // private saved values that are waited for, by number of the save
  int saves = 0;                       // tensors that autograd saved while the op ran
  bool done = false;                   // was run again
};
using InstancePtr = std::shared_ptr<Instance>;

// Somebody who will want what an op saved for its own backward alone; it is captured when the op is run again, for as
// long as this lives. Move-only.
class PrivateUse {
 public:
  // `save`: which of the op's saves it is, counted.
  PrivateUse(InstancePtr instance, int save) : instance_(std::move(instance)), save_(save) {
    instance_->captured[save_];
  }
  PrivateUse(PrivateUse&&) noexcept = default;
  PrivateUse& operator=(PrivateUse&& other) noexcept {
    std::swap(instance_, other.instance_);
    std::swap(save_, other.save_);
    return *this;
  }
  ~PrivateUse() {
    if (instance_) instance_->captured.erase(save_);
  }

  int op() const { return instance_->op->id; }
  at::Tensor tensor() const;  // the op is run again where nobody has

 private:
  InstancePtr instance_;
  int save_;
};

}  // namespace memtune::checkpoint
