#include "core/plan/rules/plan_check.h"

#include "core/base/error.h"

namespace memtune::plan {

void check_placement(const OneOpActivationPlacements& placement, const ProgramFacts& facts) {
  const std::string of = "op " + std::to_string(placement.op);
  if (placement.op < 0 || placement.op >= static_cast<int>(facts.ops.size()))
    throw UsageError(of + " is not in the model, which has " + std::to_string(facts.ops.size()) + " ops" +
                     "; it is the plan of another model");
  const std::string name = full_name(facts.ops[placement.op]);
  if (placement.name != name)
    throw UsageError(of + " is " + placement.name + " here and " + name +
                     " in the model; it is the plan of another model");
  if (placement.outputs.size() > facts.ops[placement.op].outputs.size())
    throw UsageError(of + " has " + std::to_string(facts.ops[placement.op].outputs.size()) + " outputs, not " +
                     std::to_string(placement.outputs.size()));
}

}  // namespace memtune::plan
