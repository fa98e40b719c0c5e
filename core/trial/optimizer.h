// AdamW and SGD over the fused kernels, as eager trainers run them: states in the parameters' dtype, one fused call a
// dtype, gradients set to none after the step.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace memtune::trial {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Uses and frees the gradients of all parameters that have one; no host synchronisation. Sparse gradients are sgd's
  // alone, as in PyTorch: UsageError of adamw.
  virtual void step() = 0;
  virtual int64_t state_bytes() const = 0;  // on the device
};

// name: "adamw" (betas 0.9, 0.999, eps 1e-8, decay 0.01) | "sgd" (no momentum). UsageError with the valid names.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, double learning_rate,
                                          std::vector<at::Tensor> parameters);

}  // namespace memtune::trial
