// AdamW and SGD over the fused kernels, as eager trainers run them: states in the parameters' dtype, one fused call a
// dtype, gradients set to none after the step.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace memtune::trial {

// Whoever still reads what an update writes.
class UpdateGate {
 public:
  virtual ~UpdateGate() = default;
  // What has one turn can be updated together, lower turns first; 0: now.
  virtual size_t turn(const at::Tensor& written) = 0;
  // The update that comes behind it is one of that turn.
  virtual void await(size_t turn) = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Uses and frees the gradients of all parameters that have one; no host synchronisation. Sparse gradients are sgd's
  // alone, as in PyTorch: UsageError of adamw. `gate` null: nobody reads.
  virtual void step(UpdateGate* gate = nullptr) = 0;
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
