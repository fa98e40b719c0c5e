// The plan by op number, resolved once so that lookups during a step are cheap.
#pragma once

#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/plan/strategy/plan.h"

namespace memtune::step {

struct OpPlan {
  const plan::OneOpActivationPlacements* placement = nullptr;  // null: everything is kept
  int block = -1;
  bool after_blocks = false;
  bool recomputes = false;  // some of its values are recomputed, so it must be recorded

  plan::TensorPlacement output(size_t i) const {
    return placement && i < placement->outputs.size() ? placement->outputs[i] : plan::TensorPlacement::keep;
  }
  bool offloads_saves() const { return placement && placement->saves == plan::TensorPlacement::host; }
  plan::TensorPlacement saved() const { return placement ? placement->saved : plan::TensorPlacement::keep; }
};

// Indexed by op number. `facts` and `plan` must outlive the result. Throws UsageError if the plan names an op that the
// program does not have.
std::vector<OpPlan> plan_ops(const plan::ProgramFacts& facts, const plan::Plan& plan);

}  // namespace memtune::step
