// The optimizer in the backward, as torchtune's optimizer_in_bwd has it: a parameter is updated, and its gradient
// freed, as soon as that is whole, so that gradients are never all there at once. Neither clipping nor accumulation
// goes with it, for both need them all.
#pragma once

#include "core/optimizer/optimizer.h"

namespace memtune::optimizer {

class InBackward {
 public:
  // Backwards while this lives update; the optimizer must outlive it.
  explicit InBackward(Optimizer& optimizer);
  ~InBackward();
  InBackward(const InBackward&) = delete;
  InBackward& operator=(const InBackward&) = delete;

 private:
  Optimizer& optimizer_;
};

}  // namespace memtune::optimizer
