// One executed op, remembered so that it can be run again: what went in (as values and views of them), the random state
// and autocast as they were, what came out. Instances and values form the chain that a recompute walks; it lives as
// long as something needs it.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/autograd/autocast.h"
#include "core/autograd/geometry.h"
#include "core/program/program.h"
#include "core/value/value.h"

namespace memtune::checkpoint {

class Recompute;

struct TensorInput {
  value::Use use;                              // none: `direct` is used as it is
  std::optional<autograd::Geometry> geometry;  // of the view
  bool requires_grad = false;
  at::Tensor direct;  // parameters, tensors of other kinds, undefined ones
};

// One argument: a plain value, a tensor, or a list of tensors (optional ones too).
struct Argument {
  c10::IValue value;                 // plain; for a list the empty list of its type
  std::vector<TensorInput> tensors;  // one for a tensor
  enum class Form { plain, tensor, list, optional_list } form = Form::plain;
};

struct Output {
  std::weak_ptr<value::Value> value;
  int index = 0;           // among the op's tensors, lists flattened; negative: -1 - (number of the written argument)
  caffe2::TypeMeta dtype;  // for the check that a rerun makes the same
  int64_t elements = 0;
};

struct Instance final : value::Maker {
  explicit Instance(Recompute& engine) : engine(engine) {}
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  at::Storage make(value::Value& value) override;

  Recompute& engine;
  const program::Op* op = nullptr;
  int block = -1;  // the op's; -1: outside of blocks
  std::vector<Argument> arguments;
  std::vector<Output> outputs;
  at::Tensor generator_state;  // undefined: the op draws nothing
  autograd::Autocast autocast;
  std::map<int, at::Tensor> captured;  // private saved values that tickets wait for, by number of the save
  int saves = 0;                       // tensors that autograd saved while the op ran
  bool done = false;                   // was run again
};
using InstancePtr = std::shared_ptr<Instance>;

}  // namespace memtune::checkpoint
