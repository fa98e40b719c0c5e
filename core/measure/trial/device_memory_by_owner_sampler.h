// Attributes device memory at a moment of a traced step to owners: parameters, gradients, optimizer, inputs, and the
// activations of each block. The rest of the allocated memory is work space of ops.
#pragma once

#include <string>
#include <vector>

#include "core/engine/step/activation_plan_executor.h"
#include "core/measure/trial/reference.h"
#include "core/record/trace/trace_event.h"

namespace memtune::trial {

class DeviceMemoryByOwnerSampler {
 public:
  // `parameters` and `optimizer_bytes`: only what is on the device. Facts and executor must outlive it. To be
  // constructed between two steps, when there are no gradients.
  DeviceMemoryByOwnerSampler(const plan::ProgramFacts& facts, NamedParameters parameters, int64_t optimizer_bytes,
                             const step::ActivationPlanExecutor& executor, int64_t allocated_bytes);

  const std::vector<trace::MemoryOwner>& owners() const { return owners_; }
  // Bytes by owner, in the order of owners().
  std::vector<int64_t> bytes() const;

 private:
  const plan::ProgramFacts& facts_;
  const NamedParameters parameters_;
  const step::ActivationPlanExecutor& executor_;
  std::vector<trace::MemoryOwner> owners_;
  int64_t parameter_bytes_ = 0, optimizer_bytes_ = 0, input_bytes_ = 0;
};

}  // namespace memtune::trial
