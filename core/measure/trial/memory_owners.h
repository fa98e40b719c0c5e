// Attributes device memory at a moment of a traced step to owners: parameters, gradients, optimizer, inputs, and the
// activations of each block. The rest of the allocated memory is work space of ops.
#pragma once

#include <string>
#include <vector>

#include "core/engine/step/executor.h"
#include "core/record/trace/event.h"
#include "core/measure/trial/reference.h"

namespace memtune::trial {

class MemoryOwners {
 public:
  // `parameters` and `optimizer_bytes`: only what is on the device. Facts and executor must outlive it. To be
  // constructed between two steps, when there are no gradients.
  MemoryOwners(const plan::ProgramFacts& facts, NamedParameters parameters, int64_t optimizer_bytes,
               const step::Executor& executor, int64_t allocated_bytes);

  const std::vector<trace::Owner>& owners() const { return owners_; }
  // Bytes by owner, in the order of owners().
  std::vector<int64_t> bytes() const;

 private:
  const plan::ProgramFacts& facts_;
  const NamedParameters parameters_;
  const step::Executor& executor_;
  std::vector<trace::Owner> owners_;
  int64_t parameter_bytes_ = 0, optimizer_bytes_ = 0, input_bytes_ = 0;
};

}  // namespace memtune::trial
