// The optimizers of eager trainers, gradients set to none after the step:
//
//   adamw              over the fused kernels: states in the parameters' dtype, one call a dtype
//   sgd                the same, without momentum
//   adamw_8bit         bitsandbytes' AdamW8bit: states of 8 bits, in blocks of 256 elements, but for embeddings, whose
//                      states are float32 as the Trainer of transformers has it
//   paged_adamw_32bit  bitsandbytes' PagedAdamW32bit: states in float32, in host memory
//   paged_adamw_8bit   both
//   adafactor          as the Trainer of transformers has it: scale_parameter and relative_step off
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/config/trial_request.h"

namespace memtune::optimizer {

// Whoever still reads what an update writes.
class UpdateGate {
 public:
  virtual ~UpdateGate() = default;
  // What has one turn can be updated together, lower turns first; 0: now.
  virtual size_t turn(const at::Tensor& written) = 0;
  // The update that comes behind it is one of that turn.
  virtual void await(size_t turn) = 0;
};

// Of the norm of what is here, one float32, or of nothing where there is none, that of all processes which train
// together.
using JoinNorms = std::function<at::Tensor(const at::Tensor&)>;

struct OptimizerSettings {
  std::string name = "adamw";
  double learning_rate = 1e-4;
  double max_grad_norm = 0;                         // 0: gradients are not clipped
  std::unordered_set<const void*> embeddings = {};  // TensorImpl of tables, whose states are never of 8 bits
  JoinNorms join_norms = {};                        // where each process has a part of the gradients
};
OptimizerSettings settings_of(const config::TrainingSettings& training);

class Optimizer {
 public:
  Optimizer(const OptimizerSettings& settings, std::vector<at::Tensor> parameters)
      : learning_rate_(settings.learning_rate),
        max_grad_norm_(settings.max_grad_norm),
        join_norms_(settings.join_norms),
        parameters_(std::move(parameters)) {}
  virtual ~Optimizer() = default;

  // Clips, uses and frees the gradients of all parameters that have one; no host synchronisation. Sparse gradients are
  // sgd's alone, as in PyTorch: UsageError of the others. `gate` null: nobody reads.
  void step(UpdateGate* gate = nullptr);

  // The same of one parameter that has a gradient, which is not clipped.
  void step_one(size_t i);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  virtual int64_t state_bytes() const = 0;  // on the device

  // What it keeps for parameter i, by PyTorch's names; nothing before the parameter's first gradient.
  virtual std::vector<std::pair<std::string, at::Tensor>> state(size_t /*i*/) const { return {}; }
  // So that it has that, to be written into.
  virtual void make_state(size_t /*i*/) {}

 protected:
  // Of these parameters, which all have a gradient.
  virtual void update(const std::vector<size_t>& parameters) = 0;

  double learning_rate_, max_grad_norm_;
  JoinNorms join_norms_;
  std::vector<at::Tensor> parameters_;

 private:
  size_t turn_of(size_t i, UpdateGate& gate) const;
};

// UsageError with the valid names.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, std::vector<at::Tensor> parameters);

// torch.nn.utils.clip_grad_norm_ of dense gradients: scales them by max_norm / (their common 2-norm + 1e-6) where that
// is less than 1. With `join` that of all processes, which all have to come. No host synchronisation. UsageError for a
// sparse one.
void clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm, const JoinNorms& join = {});

}  // namespace memtune::optimizer
