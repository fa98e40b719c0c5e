#include "core/engine/optimizer/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/engine/optimizer/adafactor.h"
#include "core/engine/optimizer/block_adamw.h"
#include "core/engine/optimizer/fused.h"

namespace memtune::optimizer {

OptimizerSettings settings_of(const plan::TrainingSettings& training) {
  return {training.optimizer, training.learning_rate, training.max_grad_norm, {}, {}};
}

void Optimizer::step(WriteAfterReadBarrier* gate) {
  const at::NoGradGuard no_grad;
  if (max_grad_norm_ > 0) clip_gradients(parameters_, max_grad_norm_, join_norms_);
  std::map<size_t, std::vector<size_t>> turns;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].grad().defined()) turns[gate ? turn_of(i, *gate) : 0].push_back(i);
  for (const auto& [turn, parameters] : turns) {
    if (gate) gate->await(turn);
    update(parameters);
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined()) unused_.erase(i);
    parameters_[i].mutable_grad().reset();
  }
  for (const size_t i : std::exchange(unused_, {})) drop_state(i);
}

void Optimizer::make_states() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].requires_grad() || !state(i).empty()) continue;  // frozen, or its state was loaded
    make_state(i);
    unused_.insert(i);
  }
}

void Optimizer::step_some(const std::vector<size_t>& parameters) {
  const at::NoGradGuard no_grad;
  update(parameters);
  for (const size_t i : parameters) {
    unused_.erase(i);
    parameters_[i].mutable_grad().reset();
  }
}

size_t Optimizer::turn_of(size_t i, WriteAfterReadBarrier& gate) const {
  size_t turn = gate.turn(parameters_[i]);
  for (const auto& [name, tensor] : state(i)) turn = std::max(turn, gate.turn(tensor));
  return turn;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, std::vector<at::Tensor> parameters) {
  const std::string& name = settings.name;
  if (name == "adamw") return std::make_unique<FusedAdamW>(settings, std::move(parameters));
  if (name == "sgd") return std::make_unique<FusedSgdWithoutMomentum>(settings, std::move(parameters));
  if (name == "adafactor") return std::make_unique<Adafactor>(settings, std::move(parameters));
  const bool paged = name.starts_with("paged_");
  if (name == "adamw_8bit" || name == "adamw_32bit" || name == "paged_adamw_8bit" || name == "paged_adamw_32bit")
    return std::make_unique<BitsandbytesAdamW>(settings, std::move(parameters), name.ends_with("_8bit"), paged);
  throw UsageError(unknown_name("optimizer", name, kOptimizers));
}

std::vector<at::Tensor> gradient_norms(const std::vector<at::Tensor>& gradients) {
  return at::_foreach_norm(gradients, 2);
}

namespace {

at::Tensor total_norm(const std::vector<at::Tensor>& norms) { return at::linalg_vector_norm(at::stack(norms), 2); }

at::Tensor factor_for(const at::Tensor& norm, double max_norm) {
  constexpr double kNotZero = 1e-6;
  return (max_norm / (norm + kNotZero)).clamp_max(1);
}

}  // namespace

at::Tensor clip_factor(const std::vector<at::Tensor>& norms, double max_norm) {
  return factor_for(total_norm(norms), max_norm);
}

void clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm, const GlobalNormFunction& join) {
  std::map<std::pair<at::ScalarType, int>, std::vector<at::Tensor>> groups;
  for (const at::Tensor& parameter : parameters)
    if (parameter.grad().defined() && parameter.grad().layout() != at::kStrided)
      throw UsageError(
          "--max-grad-norm clips dense gradients alone, and one is sparse: make it dense (embeddings: "
          "sparse=False)");
    else if (parameter.grad().defined())
      groups[{parameter.grad().scalar_type(), parameter.grad().get_device()}].push_back(parameter.grad());
  std::vector<at::Tensor> norms;
  for (const auto& [kind, gradients] : groups)
    for (const at::Tensor& norm : gradient_norms(gradients))
      norms.push_back(norm.to(groups.begin()->second[0].device()));
  at::Tensor norm = norms.empty() ? at::Tensor() : total_norm(norms);
  if (join) norm = join(norm);
  if (norms.empty()) return;
  const at::Tensor factor = factor_for(norm, max_norm);
  for (const auto& [kind, gradients] : groups) at::_foreach_mul_(gradients, factor.to(gradients[0].device()));
}

}  // namespace memtune::optimizer
