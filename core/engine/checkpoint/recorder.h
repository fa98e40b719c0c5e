// Records an op before it runs, so that it can be recomputed. Each recorded input becomes a value with a consumer.
#pragma once

#include <c10/util/FunctionRef.h>

#include "core/engine/checkpoint/instance.h"

namespace memtune::checkpoint {

// Returns a consumer of the tensor's value. Returns an empty one for parameters, which are read in place.
using UseOf = c10::function_ref<autograd::Use(const at::Tensor&)>;

class OpRecorder {
 public:
  // `engine` recomputes the recorded ops and must outlive the recorder.
  OpRecorder(Recompute& engine, c10::Device device) : engine_(engine), device_(device) {}

  InstancePtr record(const program::Op& op, const program::Stack& inputs, int block, UseOf use) const;
  // Records a cast that autocast put in front of an op. It is not an op of the program.
  InstancePtr record_cast(const at::Tensor& source, at::ScalarType to, int block, UseOf use) const;

 private:
  InstancePtr begin(const program::Op& op, int block) const;

  Recompute& engine_;
  c10::Device device_;
};

}  // namespace memtune::checkpoint
