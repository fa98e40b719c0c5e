// AdamW and SGD over the fused kernels, as eager trainers run them: states in the parameters' dtype, one fused call a
// dtype, gradients set to none after the step.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace memtune::trial {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Uses and frees the gradients of all parameters that have one; no host synchronisation. Sparse gradients are sgd's
  // alone, as in PyTorch: UsageError of adamw.
  virtual void step() = 0;
  virtual int64_t state_bytes() const = 0;  // on the device

  // What it keeps for parameter i, by PyTorch's names; nothing before the parameter's first gradient.
  virtual std::vector<std::pair<std::string, at::Tensor>> state(size_t /*i*/) const { return {}; }
  // So that it has that, to be written into.
  virtual void make_state(size_t /*i*/) {}
};

// name: "adamw" (betas 0.9, 0.999, eps 1e-8, decay 0.01) | "sgd" (no momentum). UsageError with the valid names.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, double learning_rate,
                                          std::vector<at::Tensor> parameters);

}  // namespace memtune::trial
