// The optimizers of eager trainers. Gradients are set to None after the step.
//
//   adamw              fused kernels: states in the parameters' dtype, one call per dtype
//   sgd                the same, without momentum
//   adamw_8bit         bitsandbytes' AdamW8bit: 8-bit states in blocks of 256 elements; float32 states for embeddings,
//                      as in transformers' Trainer
//   adamw_32bit        bitsandbytes' AdamW32bit: float32 states for parameters of any dtype
//   paged_adamw_32bit  bitsandbytes' PagedAdamW32bit: float32 states in host memory
//   paged_adamw_8bit   both: 8-bit states in host memory
//   adafactor          as transformers' Trainer runs it: scale_parameter and relative_step off
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/plan/request/trial_request.h"

namespace memtune::optimizer {

// Makes an update wait for readers of the tensors that it overwrites.
class WriteAfterReadBarrier {
 public:
  virtual ~WriteAfterReadBarrier() = default;
  // Parameters with the same turn can be updated together, lower turns first. 0: no wait is needed.
  virtual size_t turn(const at::Tensor& written) = 0;
  // Makes the compute stream wait until the tensors of this turn may be overwritten. Called before their update.
  virtual void await(size_t turn) = 0;
};

// Maps the gradient norm of this process to that of all processes that train together. Float32 scalars; undefined if
// this process has no gradients.
using GlobalNormFunction = std::function<at::Tensor(const at::Tensor&)>;

struct OptimizerSettings {
  std::string name = "adamw";
  double learning_rate = 1e-4;
  double max_grad_norm = 0;                         // 0: no clipping
  std::unordered_set<const void*> embeddings = {};  // TensorImpl of embedding tables, whose states are never 8-bit
  GlobalNormFunction join_norms = {};               // set if each process has part of the gradients
};
OptimizerSettings settings_of(const plan::TrainingSettings& training);

class Optimizer {
 public:
  Optimizer(const OptimizerSettings& settings, std::vector<at::Tensor> parameters)
      : learning_rate_(settings.learning_rate),
        max_grad_norm_(settings.max_grad_norm),
        join_norms_(settings.join_norms),
        parameters_(std::move(parameters)) {}
  virtual ~Optimizer() = default;

  // Clips, applies and frees the gradients of all parameters that have one. Does not synchronize with the device. Only
  // sgd accepts sparse gradients, as in PyTorch; the others throw UsageError. `gate` null: no other readers.
  void step(WriteAfterReadBarrier* gate = nullptr);

  // The same for these parameters, which all have a gradient, without clipping.
  void step_some(const std::vector<size_t>& parameters);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  double max_grad_norm() const { return max_grad_norm_; }  // 0: no clipping
  virtual int64_t state_bytes() const = 0;                 // on the device

  // The state of parameter i by PyTorch's names. Empty before the parameter's first gradient.
  virtual std::vector<std::pair<std::string, at::Tensor>> state(size_t /*i*/) const { return {}; }
  // Creates the state of parameter i, so that a saved one can be copied into it.
  virtual void make_state(size_t /*i*/) {}
  // Creates all states, for a caller that runs the first step next. States that are created after the first forward lie
  // between the segments of its activations, and the allocator cannot return these. Parameters that get no gradient in
  // the first step have no state after it, as in PyTorch.
  void make_states();

 protected:
  // Updates the parameters with these indices; all have a gradient.
  virtual void update(const std::vector<size_t>& parameters) = 0;
  virtual void drop_state(size_t /*i*/) {}

  double learning_rate_, max_grad_norm_;
  GlobalNormFunction join_norms_;
  std::vector<at::Tensor> parameters_;

 private:
  size_t turn_of(size_t i, WriteAfterReadBarrier& gate) const;

  std::set<size_t> unused_;  // parameters whose state was created, and that got no gradient so far
};

// Throws UsageError with the valid names if settings.name is unknown.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, std::vector<at::Tensor> parameters);

// Like torch.nn.utils.clip_grad_norm_ for dense gradients: multiplies them by max_norm / (total 2-norm + 1e-6) if that
// is less than 1. With `join`, the norm is that of all processes, and all must call this. Does not synchronize with the
// device. Throws UsageError for a sparse gradient.
void clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm, const GlobalNormFunction& join = {});

// The same in two steps, for gradients that are never on the device all at once. `norms`: of each gradient, on one
// device; the order counts for the last bit of the factor. It is that of clip_gradients() if gradients are ordered by
// dtype, then by parameter.
std::vector<at::Tensor> gradient_norms(const std::vector<at::Tensor>& gradients);
at::Tensor clip_factor(const std::vector<at::Tensor>& norms, double max_norm);

}  // namespace memtune::optimizer
