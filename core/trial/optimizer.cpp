#include "core/trial/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/vocabulary.h"

namespace memtune::trial {
namespace {

// Fused kernels know real numbers only; of complex ones each part is a number of its own.
at::Tensor in_reals(const at::Tensor& tensor) { return tensor.is_complex() ? at::view_as_real(tensor) : tensor; }

// The gradient as a kernel can read it: autograd makes zeros without memory, conjugates and negatives by a flag.
at::Tensor readable(const at::Tensor& gradient) {
  if (gradient._is_zerotensor()) return at::zeros(gradient.sizes(), gradient.options());
  return gradient.resolve_conj().resolve_neg();
}

// What one fused call takes: parameters of one dtype on one device.
struct Group {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<at::Tensor> first, second, steps;  // of AdamW
};

class Fused : public Optimizer {
 public:
  Fused(double learning_rate, std::vector<at::Tensor> parameters)
      : learning_rate_(learning_rate), parameters_(std::move(parameters)) {}

  void step(UpdateGate* gate) final {
    at::NoGradGuard no_grad;
    std::map<std::tuple<size_t, int, int>, Group> groups;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& parameter = parameters_[i];
      if (!parameter.grad().defined()) continue;
      const size_t turn = gate ? turn_of(i, *gate) : 0;
      if (parameter.grad().layout() != at::kStrided) {
        if (gate) gate->await(turn);
        update_sparse(parameter);
        continue;
      }
      Group& group = groups[{turn, static_cast<int>(parameter.scalar_type()), parameter.get_device()}];
      group.parameters.push_back(in_reals(parameter));
      group.gradients.push_back(in_reals(readable(parameter.grad())));
      add_state(i, group);
    }
    for (auto& [key, group] : groups) {
      if (gate) gate->await(std::get<0>(key));
      update(group);
    }
    groups.clear();
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

  size_t turn_of(size_t i, UpdateGate& gate) const {
    size_t turn = gate.turn(parameters_[i]);
    for (const auto& [name, tensor] : state(i)) turn = std::max(turn, gate.turn(tensor));
    return turn;
  }

 protected:
  virtual void add_state(size_t, Group&) {}
  virtual void update(Group& group) = 0;
  virtual void update_sparse(const at::Tensor& parameter) = 0;  // that has a sparse gradient

  double learning_rate_;
  std::vector<at::Tensor> parameters_;
};

class AdamW final : public Fused {
 public:
  AdamW(double learning_rate, std::vector<at::Tensor> parameters)
      : Fused(learning_rate, std::move(parameters)), states_(parameters_.size()) {}

 private:
  struct State {
    at::Tensor first, second, step;
  };

  // A parameter gets its state with its first gradient: one that never has one never has a state.
  void add_state(size_t i, Group& group) override {
    make_state(i);
    const State& state = states_[i];
    group.first.push_back(state.first);
    group.second.push_back(state.second);
    group.steps.push_back(state.step);
  }

  void make_state(size_t i) override {
    State& state = states_[i];
    if (state.step.defined()) return;
    state.first = at::zeros_like(in_reals(parameters_[i]), at::MemoryFormat::Preserve);
    state.second = at::zeros_like(in_reals(parameters_[i]), at::MemoryFormat::Preserve);
    state.step = at::zeros({}, parameters_[i].options().dtype(at::kFloat));
  }

  std::vector<std::pair<std::string, at::Tensor>> state(size_t i) const override {
    const State& state = states_[i];
    if (!state.step.defined()) return {};
    return {{"exp_avg", state.first}, {"exp_avg_sq", state.second}, {"step", state.step}};
  }

  int64_t state_bytes() const override {
    int64_t bytes = 0;
    for (const State& state : states_)
      for (const at::Tensor& tensor : {state.first, state.second, state.step})
        if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
    return bytes;
  }

  void update(Group& group) override {
    at::_foreach_add_(group.steps, 1);
    at::_fused_adamw_(group.parameters, group.gradients, group.first, group.second, /*max_exp_avg_sqs=*/{}, group.steps,
                      learning_rate_, /*beta1=*/0.9, /*beta2=*/0.999, /*weight_decay=*/0.01, /*eps=*/1e-8,
                      /*amsgrad=*/false, /*maximize=*/false);
  }

  void update_sparse(const at::Tensor& parameter) override {
    std::ostringstream shape;
    shape << parameter.sizes();
    throw UsageError("the gradient of a parameter " + shape.str() +
                     " is sparse, and adamw updates every element: make it dense (embeddings: sparse=False), or use "
                     "--optimizer sgd");
  }

  std::vector<State> states_;
};

class Sgd final : public Fused {
  using Fused::Fused;

  int64_t state_bytes() const override { return 0; }

  void update(Group& group) override {
    at::_fused_sgd_(group.parameters, group.gradients, /*momentum_buffer_list=*/{}, /*weight_decay=*/0, /*momentum=*/0,
                    learning_rate_, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
  }

  void update_sparse(const at::Tensor& parameter) override {
    at::Tensor(parameter).add_(parameter.grad(), -learning_rate_);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, double learning_rate,
                                          std::vector<at::Tensor> parameters) {
  if (name == "adamw") return std::make_unique<AdamW>(learning_rate, std::move(parameters));
  if (name == "sgd") return std::make_unique<Sgd>(learning_rate, std::move(parameters));
  throw UsageError(unknown_name("optimizer", name, config::kOptimizers));
}

}  // namespace memtune::trial
