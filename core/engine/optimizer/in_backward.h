// Runs the optimizer during backward, like torchtune's optimizer_in_bwd. Each parameter is updated, and its gradient
// freed, as soon as the gradient is complete. So all gradients never exist at once. Cannot be combined with clipping or
// accumulation, which need all gradients.
#pragma once

#include "core/engine/optimizer/optimizer.h"

namespace memtune::optimizer {

class InBackward {
 public:
  // While this lives, every backward updates the parameters. `optimizer` must outlive it.
  explicit InBackward(Optimizer& optimizer);
  ~InBackward();
  InBackward(const InBackward&) = delete;
  InBackward& operator=(const InBackward&) = delete;

 private:
  Optimizer& optimizer_;
};

}  // namespace memtune::optimizer
