#include "core/engine/optimizer/fused.h"

#include <ATen/ATen.h>

#include <map>
#include <sstream>

#include "core/base/error.h"

namespace memtune::optimizer {
namespace {

// Fused kernels support real dtypes only; a complex element becomes two real ones.
at::Tensor in_reals(const at::Tensor& tensor) { return tensor.is_complex() ? at::view_as_real(tensor) : tensor; }

// Makes the gradient readable by kernels: resolves autograd's zero tensors and lazy conjugate and negative bits.
at::Tensor readable(const at::Tensor& gradient) {
  if (gradient._is_zerotensor()) return at::zeros(gradient.sizes(), gradient.options());
  return gradient.resolve_conj().resolve_neg();
}

}  // namespace

void refuse_sparse(const std::string& optimizer, const at::Tensor& parameter) {
  std::ostringstream shape;
  shape << parameter.sizes();
  throw UsageError("the gradient of a parameter " + shape.str() + " is sparse, and " + optimizer +
                   " updates every element: make it dense (embeddings: sparse=False), or use --optimizer sgd");
}

void check_dense_and_real(const std::string& optimizer, const at::Tensor& parameter) {
  if (parameter.grad().layout() != at::kStrided) refuse_sparse(optimizer, parameter);
  if (parameter.is_complex())
    throw UsageError(optimizer + " knows no complex parameters: use --optimizer adamw or sgd");
}

void FusedKernelOptimizer::update(const std::vector<size_t>& parameters) {
  std::map<std::pair<int, int>, FusedOptimizerCallArguments> groups;
  for (const size_t i : parameters) {
    const at::Tensor& parameter = parameters_[i];
    if (parameter.grad().layout() != at::kStrided) {
      update_sparse(parameter);
      continue;
    }
    FusedOptimizerCallArguments& group = groups[{static_cast<int>(parameter.scalar_type()), parameter.get_device()}];
    group.parameters.push_back(in_reals(parameter));
    group.gradients.push_back(in_reals(readable(parameter.grad())));
    add_state(i, group);
  }
  for (auto& [kind, group] : groups) update(group);
}

// The state is created with the first gradient; parameters without one have no state.
void FusedAdamW::add_state(size_t i, FusedOptimizerCallArguments& group) {
  make_state(i);
  const State& state = states_[i];
  group.first.push_back(state.first);
  group.second.push_back(state.second);
  group.steps.push_back(state.step);
}

void FusedAdamW::make_state(size_t i) {
  State& state = states_[i];
  if (state.step.defined()) return;
  state.first = at::zeros_like(in_reals(parameters_[i]), at::MemoryFormat::Preserve);
  state.second = at::zeros_like(in_reals(parameters_[i]), at::MemoryFormat::Preserve);
  state.step = at::zeros({}, parameters_[i].options().dtype(at::kFloat));
}

std::vector<std::pair<std::string, at::Tensor>> FusedAdamW::state(size_t i) const {
  const State& state = states_[i];
  if (!state.step.defined()) return {};
  return {{"exp_avg", state.first}, {"exp_avg_sq", state.second}, {"step", state.step}};
}

int64_t FusedAdamW::state_bytes() const {
  int64_t bytes = 0;
  for (const State& state : states_)
    for (const at::Tensor& tensor : {state.first, state.second, state.step})
      if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

void FusedAdamW::update(FusedOptimizerCallArguments& group) {
  at::_foreach_add_(group.steps, 1);
  at::_fused_adamw_(group.parameters, group.gradients, group.first, group.second, /*max_exp_avg_sqs=*/{}, group.steps,
                    learning_rate_, /*beta1=*/0.9, /*beta2=*/0.999, /*weight_decay=*/0.01, /*eps=*/1e-8,
                    /*amsgrad=*/false, /*maximize=*/false);
}

void FusedAdamW::update_sparse(const at::Tensor& parameter) { refuse_sparse("adamw", parameter); }

void FusedSgdWithoutMomentum::update(FusedOptimizerCallArguments& group) {
  at::_fused_sgd_(group.parameters, group.gradients, /*momentum_buffer_list=*/{}, /*weight_decay=*/0, /*momentum=*/0,
                  learning_rate_, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
}

void FusedSgdWithoutMomentum::update_sparse(const at::Tensor& parameter) {
  at::Tensor(parameter).add_(parameter.grad(), -learning_rate_);
}

}  // namespace memtune::optimizer
