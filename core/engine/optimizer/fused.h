// AdamW (betas 0.9, 0.999, eps 1e-8, decay 0.01) and SGD over LibTorch's fused kernels.
#pragma once

#include "core/engine/optimizer/optimizer.h"

namespace memtune::optimizer {

// Arguments of one fused call: parameters of one dtype on one device.
struct FusedOptimizerCallArguments {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<at::Tensor> first, second, steps;  // for AdamW
};

class FusedKernelOptimizer : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  virtual void add_state(size_t, FusedOptimizerCallArguments&) {}
  virtual void update(FusedOptimizerCallArguments& group) = 0;
  virtual void update_sparse(const at::Tensor& parameter) = 0;  // a parameter with a sparse gradient

 private:
  void update(const std::vector<size_t>& parameters) final;
};

class FusedAdamW final : public FusedKernelOptimizer {
 public:
  FusedAdamW(const OptimizerSettings& settings, std::vector<at::Tensor> parameters)
      : FusedKernelOptimizer(settings, std::move(parameters)), states_(parameters_.size()) {}
  int64_t state_bytes() const override;
  std::vector<std::pair<std::string, at::Tensor>> state(size_t i) const override;
  void make_state(size_t i) override;

 private:
  struct State {
    at::Tensor first, second, step;
  };

  void drop_state(size_t i) override { states_[i] = {}; }
  void add_state(size_t i, FusedOptimizerCallArguments& group) override;
  void update(FusedOptimizerCallArguments& group) override;
  void update_sparse(const at::Tensor& parameter) override;

  std::vector<State> states_;
};

class FusedSgdWithoutMomentum final : public FusedKernelOptimizer {
 public:
  using FusedKernelOptimizer::FusedKernelOptimizer;
  int64_t state_bytes() const override { return 0; }

 private:
  void update(FusedOptimizerCallArguments& group) override;
  void update_sparse(const at::Tensor& parameter) override;
};

// Throws UsageError: this optimizer updates every element, but the parameter's gradient is sparse.
[[noreturn]] void refuse_sparse(const std::string& optimizer, const at::Tensor& parameter);
// Throws UsageError if the parameter is complex or its gradient is sparse.
void check_dense_and_real(const std::string& optimizer, const at::Tensor& parameter);

}  // namespace memtune::optimizer
