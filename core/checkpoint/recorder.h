// Records ops that may have to be run again, before they run: their inputs are values from then on that somebody uses.
#pragma once

#include <c10/util/FunctionRef.h>

#include "core/checkpoint/instance.h"

namespace memtune::checkpoint {

// Who keeps the tensor's bytes for a rerun: a use of its value. None for what is no value (a parameter), which is used
// as it is.
using UseOf = c10::function_ref<autograd::Use(const at::Tensor&)>;

class OpRecorder {
 public:
  // The engine runs again what is recorded, and must outlive it.
  OpRecorder(Recompute& engine, c10::Device device) : engine_(engine), device_(device) {}

  InstancePtr record(const program::Op& op, const program::Stack& inputs, int block, UseOf use) const;
  // Of a cast that autocast put in front of an op: no op of the program.
  InstancePtr record_cast(const at::Tensor& source, at::ScalarType to, int block, UseOf use) const;

 private:
  InstancePtr begin(const program::Op& op, int block) const;

  Recompute& engine_;
  c10::Device device_;
};

}  // namespace memtune::checkpoint
