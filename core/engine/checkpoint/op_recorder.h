// Records an op before it runs, so that it can be recomputed. Each recorded input becomes a value with a consumer.
#pragma once

#include <c10/util/FunctionRef.h>

#include "core/engine/checkpoint/recorded_op.h"

namespace memtune::checkpoint {

// Returns a consumer of the tensor's value. Returns an empty one for parameters, which are read in place.
using ConsumerHandleOf = c10::function_ref<autograd::SavedStorageConsumerReference(const at::Tensor&)>;

class OpRecorder {
 public:
  // `engine` recomputes the recorded ops and must outlive the recorder.
  OpRecorder(RecomputeEngine& engine, c10::Device device) : engine_(engine), device_(device) {}

  RecordedOpPtr record(const program::Op& op, const program::Stack& inputs, int block, ConsumerHandleOf use) const;
  // Records a cast that autocast put in front of an op. It is not an op of the program.
  RecordedOpPtr record_cast(const at::Tensor& source, at::ScalarType to, int block, ConsumerHandleOf use) const;

 private:
  RecordedOpPtr begin(const program::Op& op, int block) const;

  RecomputeEngine& engine_;
  c10::Device device_;
};

}  // namespace memtune::checkpoint
