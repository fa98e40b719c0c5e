#include "core/engine/optimizer/adafactor.h"

#include <ATen/ATen.h>

#include <cmath>

#include "core/engine/optimizer/fused.h"

namespace memtune::optimizer {
namespace {

constexpr double kAdafactorEpsilon = 1e-30, kDecayRate = -0.8;

bool is_narrow(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

at::Tensor wide(const at::Tensor& tensor) { return is_narrow(tensor) ? tensor.to(at::kFloat) : tensor; }

at::Tensor root_mean_square(const at::Tensor& tensor) {
  return tensor.norm(2) / std::sqrt(static_cast<double>(tensor.numel()));
}

}  // namespace

void Adafactor::make_state(size_t i) {
  State& state = states_[i];
  if (state.step.defined()) return;
  const at::Tensor& parameter = parameters_[i];
  const at::TensorOptions options =
      parameter.options().dtype(is_narrow(parameter) ? at::kFloat : parameter.scalar_type());
  std::vector<int64_t> row = parameter.sizes().vec(), column = row;
  if (row.size() < 2) {
    state.all = at::zeros(row, options);
  } else {
    row.pop_back();
    column.erase(column.end() - 2);
    state.row = at::zeros(row, options);
    state.column = at::zeros(column, options);
  }
  state.step = at::zeros({}, at::kFloat);
}

std::vector<std::pair<std::string, at::Tensor>> Adafactor::state(size_t i) const {
  const State& state = states_[i];
  if (!state.step.defined()) return {};
  if (state.all.defined()) return {{"exp_avg_sq", state.all}, {"step", state.step}};
  return {{"exp_avg_sq_row", state.row}, {"exp_avg_sq_col", state.column}, {"step", state.step}};
}

int64_t Adafactor::state_bytes() const {
  int64_t bytes = 0;
  for (const State& state : states_)
    for (const at::Tensor& tensor : {state.row, state.column, state.all})
      if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

void Adafactor::update(const std::vector<size_t>& parameters) {
  for (const size_t i : parameters) {
    const at::Tensor& parameter = parameters_[i];
    check_dense_and_real("adafactor", parameter);
    make_state(i);
    states_[i].step += 1;
    at::Tensor values = wide(parameter);
    values.add_(scaled(wide(parameter.grad()), states_[i]).neg_());
    if (!values.is_same(parameter)) at::Tensor(parameter).copy_(values);
  }
}

at::Tensor Adafactor::scaled(const at::Tensor& gradient, const State& state) const {
  const double kept = 1 - std::pow(state.step.item<double>(), kDecayRate);
  at::Tensor update = gradient.square().add_(kAdafactorEpsilon);
  if (state.all.defined()) {
    at::Tensor(state.all).mul_(kept).add_(update, 1 - kept);
    update = state.all.rsqrt().mul_(gradient);
  } else {
    at::Tensor(state.row).mul_(kept).add_(update.mean(-1), 1 - kept);
    at::Tensor(state.column).mul_(kept).add_(update.mean(-2), 1 - kept);
    const at::Tensor row = (state.row / state.row.mean(-1, true)).rsqrt_().unsqueeze(-1);
    update = at::mul(row, state.column.unsqueeze(-2).rsqrt()).mul_(gradient);
  }
  update.div_(root_mean_square(update).clamp_(1.0));
  return update.mul_(learning_rate_);
}

}  // namespace memtune::optimizer
