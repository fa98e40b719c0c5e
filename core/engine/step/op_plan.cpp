#include "core/engine/step/op_plan.h"

#include <algorithm>

#include "core/plan/rules/plan_check.h"

namespace memtune::step {

using plan::TensorPlacement;

std::vector<OpPlan> plan_ops(const plan::ProgramFacts& facts, const plan::Plan& plan) {
  std::vector<OpPlan> ops;
  for (const plan::ProgramOpFacts& fact : facts.ops)
    ops.push_back({.block = fact.block, .after_blocks = fact.after_blocks});
  for (const plan::OneOpActivationPlacements& placement : plan.placements) {
    plan::check_placement(placement, facts);
    OpPlan& op = ops[placement.op];
    op.placement = &placement;
    if (facts.ops[placement.op].op_class == plan::OpClass::host) continue;  // backward needs no sizes or numbers
    op.recomputes = placement.saved == TensorPlacement::recompute ||
                    std::ranges::count(placement.outputs, TensorPlacement::recompute) > 0;
  }
  return ops;
}

}  // namespace memtune::step
