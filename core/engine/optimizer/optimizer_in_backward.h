// Runs the optimizer during backward, like torchtune's optimizer_in_bwd. Each parameter is updated, and its gradient
// freed, as soon as the gradient is complete. So all gradients never exist at once. Cannot be combined with clipping or
// accumulation, which need all gradients.
#pragma once

#include "core/engine/optimizer/optimizer.h"

namespace memtune::optimizer {

class OptimizerInBackward {
 public:
  // While this lives, every backward updates the parameters. `optimizer` must outlive it.
  explicit OptimizerInBackward(Optimizer& optimizer);
  ~OptimizerInBackward();
  OptimizerInBackward(const OptimizerInBackward&) = delete;
  OptimizerInBackward& operator=(const OptimizerInBackward&) = delete;

 private:
  Optimizer& optimizer_;
};

}  // namespace memtune::optimizer
