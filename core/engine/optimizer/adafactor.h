// Adafactor as transformers' Trainer runs it: no scale_parameter, relative_step, first moment or weight decay;
// clip_threshold 1, decay_rate -0.8, eps 1e-30. For a matrix it stores the mean squared gradient of each row and
// column. Source: transformers.optimization.Adafactor, 5.17.
#pragma once

#include "core/engine/optimizer/optimizer.h"

namespace memtune::optimizer {

class Adafactor final : public Optimizer {
 public:
  Adafactor(const OptimizerSettings& settings, std::vector<at::Tensor> parameters)
      : Optimizer(settings, std::move(parameters)), states_(parameters_.size()) {}

  int64_t state_bytes() const override;
  std::vector<std::pair<std::string, at::Tensor>> state(size_t i) const override;
  void make_state(size_t i) override;

 private:
  struct State {
    at::Tensor row, column;  // 2 or more dimensions: without the last one, the last but one
    at::Tensor all;          // fewer dimensions
    at::Tensor step;         // on the CPU
  };

  void update(const std::vector<size_t>& parameters) override;
  void drop_state(size_t i) override { states_[i] = {}; }
  at::Tensor scaled(const at::Tensor& gradient, const State& state) const;

  std::vector<State> states_;
};

}  // namespace memtune::optimizer
