// The plan by op number, resolved once so that lookups during a step are cheap.
#pragma once

#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"

namespace memtune::step {

struct OpPlan {
  const config::OpPlacement* placement = nullptr;  // null: everything is kept
  int block = -1;
  bool after_blocks = false;
  bool recomputes = false;  // some of its values are recomputed, so it must be recorded

  config::Place output(size_t i) const {
    return placement && i < placement->outputs.size() ? placement->outputs[i] : config::Place::keep;
  }
  bool sends_saves() const { return placement && placement->saves == config::Place::host; }
  config::Place saved() const { return placement ? placement->saved : config::Place::keep; }
};

// Indexed by op number. `facts` and `plan` must outlive the result. Throws UsageError if the plan names an op that the
// program does not have.
std::vector<OpPlan> plan_ops(const config::ProgramFacts& facts, const config::Plan& plan);

}  // namespace memtune::step
