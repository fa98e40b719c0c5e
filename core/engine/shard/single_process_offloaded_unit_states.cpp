#include "core/engine/shard/single_process_offloaded_unit_states.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/device/allocation_grain.h"
#include "core/base/error.h"

namespace memtune::shard {

using schedule::ModelStateKind;

namespace {

constexpr int64_t kStateAlignedBytes = 64;

}  // namespace

SingleProcessOffloadedUnitStates::SingleProcessOffloadedUnitStates(
    const std::string& name, const program::NamedTensors& parameters, const plan::UnitStatePlacement& place,
    program::HostWeightsWhileModelLoads* weights, PinnedTensorAllocatorAndCopier& host, device::Device& device)
    : parameters_(name, parameters, weights),
      moves_moments_(parameters_.trained() && place.moments == plan::TensorPlacement::host),
      host_(host),
      device_(device) {
  if (place.parameters == plan::TensorPlacement::host) values().emplace(parameters_.whole(), host_, device_);
}

void SingleProcessOffloadedUnitStates::attach(optimizer::Optimizer& optimizer, std::vector<size_t> numbers,
                                              bool moves_gradients) {
  const at::NoGradGuard no_grad;
  optimizer_ = &optimizer;
  numbers_ = std::move(numbers);
  made_.assign(numbers_.size(), false);
  if (!moves_gradients || (!values() && !moves_moments_)) return;
  const at::Tensor row = at::zeros_like(parameters_.whole());
  gradient_views_ = parameters_.views_in(row);
  this->row(ModelStateKind::gradients).emplace(row, host_, device_);
}

void SingleProcessOffloadedUnitStates::drop_gradients() {
  std::ranges::fill(made_, false);
  for (size_t i = 0; i < parameters_.parameters(); ++i) parameters_.parameter(i).mutable_grad().reset();
}

std::vector<at::Tensor> SingleProcessOffloadedUnitStates::made_gradients() const {
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < parameters_.parameters(); ++i)
    all.push_back(!row(ModelStateKind::gradients) ? parameters_.parameter(i).grad()
                  : made_[i]                      ? gradient_views_[i]
                                                  : at::Tensor());
  return all;
}

bool SingleProcessOffloadedUnitStates::has_gradients() const {
  return std::ranges::any_of(made_gradients(), &at::Tensor::defined);
}

void SingleProcessOffloadedUnitStates::add_norms(Norms& norms) const {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> all = made_gradients();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].defined()) norms[{all[i].scalar_type(), numbers_[i]}] = optimizer::gradient_norms({all[i]}).front();
}

bool SingleProcessOffloadedUnitStates::offloads() const {
  return std::ranges::any_of(rows_, [](const auto& row) { return row.has_value(); });
}

void SingleProcessOffloadedUnitStates::take_gradients() {
  const at::NoGradGuard no_grad;
  if (!row(ModelStateKind::gradients)) return;  // they stay on the parameters
  row(ModelStateKind::gradients)->make_room();
  std::vector<at::Tensor> first, sums, of_first, of_sums;
  for (size_t i = 0; i < parameters_.parameters(); ++i) {
    const at::Tensor gradient = std::exchange(parameters_.parameter(i).mutable_grad(), {});
    if (!gradient.defined()) continue;
    if (gradient.layout() != at::kStrided)
      throw UsageError("the gradient of '" + parameters_.parameter_name(i) +
                       "' is sparse, and offloaded ones are dense: make it dense (embeddings: sparse=False)");
    (made_[i] ? sums : first).push_back(gradient_views_[i]);
    (made_[i] ? of_sums : of_first).push_back(gradient);
    made_[i] = true;
  }
  if (!first.empty()) at::_foreach_copy_(first, of_first);
  if (!sums.empty()) at::_foreach_add_(sums, of_sums);
}

int64_t SingleProcessOffloadedUnitStates::update(const at::Tensor& factor) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> all = made_gradients(), to_scale;
  std::vector<size_t> updated;
  int64_t bytes = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].defined()) continue;
    bytes += allocated_bytes(all[i]);
    parameters_.parameter(i).mutable_grad() = all[i];
    updated.push_back(numbers_[i]);
    to_scale.push_back(all[i]);
  }
  if (updated.empty()) return 0;
  if (factor.defined()) at::_foreach_mul_(to_scale, factor.to(to_scale.front().device()));
  optimizer_->step_some(updated);
  drop_gradients();
  if (take_moments()) {
    moments()->load();  // as after an update of loaded ones
    moments()->wait();
  }
  return bytes;
}

int64_t SingleProcessOffloadedUnitStates::allocated_bytes(const at::Tensor& tensor) const {
  return round_up(static_cast<int64_t>(tensor.nbytes()), device::allocation_grain(device_));
}

int64_t SingleProcessOffloadedUnitStates::bytes_on_device(ModelStateKind kind) const {
  const std::optional<HostOffloadedTensor>& bytes = row(kind);
  return bytes && bytes->on_device() ? bytes->bytes() : 0;
}

int64_t SingleProcessOffloadedUnitStates::state_bytes() const {
  int64_t bytes = row(ModelStateKind::moments) ? moment_bytes_ : 0;
  for (size_t i = 0; row(ModelStateKind::parameters) && i < parameters_.parameters(); ++i)
    bytes += allocated_bytes(parameters_.parameter(i));
  return bytes;
}

int64_t SingleProcessOffloadedUnitStates::gradient_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; row(ModelStateKind::gradients) && i < made_.size(); ++i) {
    if (!made_[i]) continue;
    bytes += allocated_bytes(gradient_views_[i]);
    if (const at::Tensor& added = parameters_.parameter(i).grad(); added.defined()) bytes -= allocated_bytes(added);
  }
  return bytes;
}

void SingleProcessOffloadedUnitStates::make_moments(const std::vector<size_t>& numbers) {
  const at::NoGradGuard no_grad;
  for (const size_t number : numbers_)
    if (std::ranges::count(numbers, number) > 0) optimizer_->make_state(number);
  take_moments();
}

// Moves moments that the optimizer has made into one row in host memory, so that they are copied together. Step
// counters, a number each, stay. Returns whether there were new ones; the older ones must be loaded then.
bool SingleProcessOffloadedUnitStates::take_moments() {
  if (!moves_moments_) return false;
  std::vector<at::Tensor> states;
  for (const size_t i : numbers_)
    for (const auto& [name, tensor] : optimizer_->state(i))
      if (tensor.dim() > 0 && tensor.device() == optimizer_->parameters()[i].device()) states.push_back(tensor);
  if (states.size() == moments_taken_) return false;
  const auto bytes_of = [](const at::Tensor& state) {
    return round_up(static_cast<int64_t>(state.nbytes()), kStateAlignedBytes);
  };
  int64_t bytes = 0, begin = 0;
  moment_bytes_ = 0;
  for (const at::Tensor& state : states) {
    bytes += bytes_of(state);
    moment_bytes_ += allocated_bytes(state);
  }
  const at::Tensor row = at::empty({bytes}, states.front().options().dtype(at::kByte));
  for (at::Tensor& state : states) {
    const at::Tensor old = state.detach();
    state.set_(row.storage(), begin / state.element_size(), old.sizes(), old.strides());
    state.copy_(old);
    begin += bytes_of(state);
  }
  moments_taken_ = states.size();
  moments().emplace(row, host_, device_);
  return true;
}

}  // namespace memtune::shard
