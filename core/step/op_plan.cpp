#include "core/step/op_plan.h"

#include <algorithm>

#include "core/config/plan_check.h"

namespace memtune::step {

using config::Place;

std::vector<OpPlan> plan_ops(const config::ProgramFacts& facts, const config::Plan& plan) {
  std::vector<OpPlan> ops;
  for (const config::OpFacts& fact : facts.ops) ops.push_back({.block = fact.block, .after_blocks = fact.after_blocks});
  for (const config::OpPlacement& placement : plan.placements) {
    config::check_placement(placement, facts);
    OpPlan& op = ops[placement.op];
    op.placement = &placement;
    if (facts.ops[placement.op].op_class == config::OpClass::host) continue;  // backward needs no sizes or numbers
    op.recomputes = placement.saved == Place::recompute || std::ranges::count(placement.outputs, Place::recompute) > 0;
  }
  return ops;
}

}  // namespace memtune::step
