#include "tests/support/random_plan.h"

#include <map>

#include "core/base/hash.h"
#include "tests/support/random.h"

namespace memtune::tests {
namespace {

using plan::TensorPlacement;

template <typename Visit>
void visit_ops(const program::ProgramOrControlFlowBody& body, const Visit& visit) {
  for (const program::Op& op : body.ops) {
    visit(op);
    for (const program::ProgramOrControlFlowBody& inner : op.bodies) visit_ops(inner, visit);
  }
}

plan::TransferSettings random_settings(Random& random) {
  plan::TransferSettings settings;
  settings.min_bytes = 0;
  settings.side_stream = !random.one_in(5);
  settings.stash_bytes = random.of({0, 100, 1 << 10, 1 << 20});
  settings.prefetch_bytes = random.of({0, 50, 1 << 10, 1 << 20});
  if (random.one_in(3)) settings.schedule = plan::ActivationOffloadCopyGranularity::block;
  settings.groups_in_flight = random.below(3);
  settings.prefetch_blocks = random.below(3);
  return settings;
}

}  // namespace

plan::Plan random_plan(const program::Program& program, const plan::ProgramFacts& facts, uint64_t seed) {
  Random random(seed);
  plan::Plan plan;
  plan.strategy = "random";
  plan.saved_min_bytes = 0;
  plan.transfer = random_settings(random);
  // Some plans mostly keep, others mostly recompute. One in four uses the disk.
  std::vector<TensorPlacement> places = {TensorPlacement::keep, TensorPlacement::recompute, TensorPlacement::host};
  for (int i = random.below(4); i > 0; --i)
    places.push_back(random.of({TensorPlacement::keep, TensorPlacement::recompute, TensorPlacement::host}));
  if (random.one_in(4))
    for (TensorPlacement& place : places) place = place == TensorPlacement::host ? TensorPlacement::disk : place;
  std::map<std::string, int> same_name;
  visit_ops(program.body, [&](const program::Op& op) {
    const auto& fact = facts.ops[static_cast<size_t>(op.id)];
    const std::string name = plan::full_name(fact);
    const std::string key = name + " " + std::to_string(same_name[name]++);
    Random of_op(hash64(key.data(), key.size(), seed));
    plan::OneOpActivationPlacements placement{op.id, name, {}, of_op.of(places)};
    for (size_t i = 0; i < fact.outputs.size(); ++i) placement.outputs.push_back(of_op.of(places));
    plan.placements.push_back(placement);
  });
  plan.nested = random.one_in(3);
  return plan;
}

}  // namespace memtune::tests
