// What autograd holds for one saved tensor. Resolved once to one of three: a tensor that is left alone, a view of a
// value, or a private value that its op makes again. Pending while the op that made it runs.
#pragma once

#include "core/autograd/geometry.h"
#include "core/autograd/hooks.h"
#include "core/checkpoint/instance.h"
#include "core/value/value.h"

namespace memtune::step {

class Executor;

class SavedTensor final : public autograd::Ticket {
 public:
  // `save`: which of the running op's saves it is.
  SavedTensor(Executor& executor, const at::Tensor& tensor, int save);
  ~SavedTensor() override;

  at::Tensor unpack() override;

  void become(value::Use use);
  void become(const checkpoint::InstancePtr& instance);

  const at::Tensor& tensor() const { return tensor_; }  // until it is resolved
  uint32_t version() const { return version_; }
  bool cast_parameter() const { return cast_parameter_; }
  int cast_source() const { return cast_source_; }  // the op's input that it is the cast copy of; -1: none

 private:
  trace::ValueKey key() const;  // op -1: left alone

  Executor& executor_;
  autograd::Geometry geometry_;
  c10::VariableVersion counter_;
  uint32_t version_;
  int save_, block_;
  bool cast_parameter_ = false;
  int cast_source_ = -1;
  at::Tensor tensor_;
  value::Use use_;
  checkpoint::InstancePtr instance_;
};

}  // namespace memtune::step
