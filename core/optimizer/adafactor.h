// Adafactor as the Trainer of transformers runs it: scale_parameter, relative_step, first moment and decay off,
// clip_threshold 1, decay_rate -0.8, eps 1e-30. Of a matrix it keeps the means of squared gradients by row and by
// column. Source: transformers.optimization.Adafactor, 5.17.
#pragma once

#include "core/optimizer/optimizer.h"

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
    at::Tensor row, column;  // of two dimensions and more: without the last one, without the one before it
    at::Tensor all;          // of fewer
    at::Tensor step;         // on the host
  };

  void update(const std::vector<size_t>& parameters) override;
  at::Tensor scaled(const at::Tensor& gradient, const State& state) const;

  std::vector<State> states_;
};

}  // namespace memtune::optimizer
