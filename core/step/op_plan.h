// What a plan means for each op of the program, found out once: while a step runs it is looked up by the op's number.
#pragma once

#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"

namespace memtune::step {

struct OpPlan {
  const config::OpPlacement* placement = nullptr;  // null: all stays
  int block = -1;
  bool after_blocks = false;
  bool recomputes = false;  // some of its values are made again: it has to be recorded

  config::Place output(size_t i) const {
    return placement && i < placement->outputs.size() ? placement->outputs[i] : config::Place::keep;
  }
  bool sends_saves() const { return placement && placement->saves == config::Place::host; }
  config::Place saved() const { return placement ? placement->saved : config::Place::keep; }
};

// By op. Both must outlive it. UsageError when the plan names an op that the program does not have.
std::vector<OpPlan> plan_ops(const config::ProgramFacts& facts, const config::Plan& plan);

}  // namespace memtune::step
