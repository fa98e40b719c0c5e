#include "core/plan/planner/fixed_costs.h"

#include <algorithm>
#include <vector>

#include "core/plan/planner/step_simulator.h"
#include "core/plan/planner/unmodelled_memory.h"

namespace memtune::planner {
namespace {

using plan::ProgramFacts;
using plan::RecordedStepCosts;

// By op: whether an input of it depends on program inputs. Ops that return sizes do not count.
std::vector<bool> ops_of_inputs(const ProgramFacts& facts) {
  std::vector<bool> grows(facts.owner.size(), true);  // by value; those that no op makes are program inputs
  for (const plan::ProgramOpFacts& op : facts.ops)
    for (const int output : op.outputs) grows.at(output) = false;
  std::vector<bool> ops;
  for (const plan::ProgramOpFacts& op : facts.ops) {
    ops.push_back(op.op_class != plan::OpClass::host &&
                  std::ranges::any_of(op.inputs, [&](int input) { return grows.at(input); }));
    for (const int output : op.outputs) grows[output] = grows[output] || ops.back();
  }
  return ops;
}

// Runs and values of the step that grow with the batch. An in-place op makes a new value.
struct Growing {
  std::vector<bool> runs, values;
};

Growing find_growing(const ProgramFacts& facts, const RecordedStepCosts& costs) {
  const std::vector<bool> ops = ops_of_inputs(facts);
  Growing growing{{}, std::vector<bool>(costs.values.size())};
  for (const RecordedStepCosts::Run& run : costs.runs) {
    growing.runs.push_back(ops[run.op] ||
                           std::ranges::any_of(run.reads, [&](int value) { return growing.values[value]; }));
    for (const int value : run.makes)
      growing.values[value] = growing.runs.back() && costs.values[value].cast_of != RecordedStepCosts::kCastOfOther;
  }
  return growing;
}

// Bytes held by the values in each later step.
UnmodelledMemory held_by(const ProgramFacts& facts, const RecordedStepCosts& costs,
                         const UnmodelledMemory& unmodelled) {
  constexpr int kSteps = 2;
  const RecordedStepSimulationTables tables(facts, costs);
  const plan::Plan keeps;
  SimulatedCachingAllocator cache(costs.grain_bytes);
  UnmodelledMemory held;
  for (int step = 0; step < kSteps; ++step) {
    schedule::LearnedMemoryHeadroomTimeline schedule;
    StepSimulator simulator(tables, costs, unmodelled, keeps, schedule, cache);
    simulator.simulate_step();
    held = simulator.held();
  }
  return held;
}

// Unmodelled bytes that stay until backward ends: at a moment, and at the end of the interval after it.
struct Lasting {
  int64_t before_bytes = 0, behind_bytes = 0;
};

// If gradients were not recorded, takes the least unmodelled memory from a moment to the end. That counts them too
// early.
std::vector<int64_t> lasting_at_most(const RecordedStepCosts& costs, const UnmodelledMemory& unmodelled) {
  std::vector<int64_t> lasting(costs.moments.size() + 1, std::max(costs.start_bytes, unmodelled.after_peak_bytes));
  for (size_t i = costs.moments.size(); i-- > 0;)
    lasting[i] = std::max(costs.start_bytes, std::min(lasting[i + 1], unmodelled.moments[i].before_bytes));
  for (size_t i = 0; i < costs.gradient_bytes.size(); ++i) lasting[i] = costs.start_bytes + costs.gradient_bytes[i];
  return lasting;
}

// A gradient becomes that of the parameter when backward of its op has freed its saved tensors: by the next unpack.
std::vector<Lasting> find_lasting(const RecordedStepCosts& costs, const UnmodelledMemory& unmodelled) {
  const std::vector<int64_t> most = lasting_at_most(costs, unmodelled);
  std::vector<Lasting> lasting(costs.moments.size());
  int64_t next = most.back();
  for (size_t i = costs.moments.size(); i-- > 0;) {
    const bool unpacks = costs.moments[i].kind == RecordedStepCosts::Moment::Kind::unpack;
    const UnmodelledMemory::Entry& there = unmodelled.moments[i];
    lasting[i] = {std::min(unpacks ? most[i] : next, there.before_bytes), std::min(next, there.peak_bytes)};
    if (unpacks) next = most[i];
  }
  return lasting;
}

}  // namespace

RecordedStepCosts fixed_costs(const ProgramFacts& facts, const RecordedStepCosts& costs) {
  const RecordedStepSimulationTables tables(facts, costs);
  const UnmodelledMemory unmodelled = find_unmodelled_memory(tables, costs);
  const Growing growing = find_growing(facts, costs);
  RecordedStepCosts fixed = costs;
  fixed.step_ms = fixed.before_ms = fixed.rerun_ms = 0;
  fixed.after_ms = tables.scale * costs.after_ms;
  for (size_t i = 0; i < fixed.values.size(); ++i)
    if (growing.values[i]) fixed.values[i].bytes = 0;
  const UnmodelledMemory held = held_by(facts, fixed, unmodelled);
  for (size_t i = 0; i < fixed.runs.size(); ++i) {
    RecordedStepCosts::Run& run = fixed.runs[i];
    run.ms = run.host_ms = 0;
    run.before_bytes = unmodelled.runs[i].before_bytes + held.runs[i].before_bytes;
    if (!growing.runs[i]) continue;
    run.own_bytes = 0;
    for (const int value : run.makes) run.own_bytes += fixed.values[value].bytes;
  }
  const std::vector<Lasting> lasting = find_lasting(costs, unmodelled);
  fixed.before_peak_bytes =
      std::min(lasting.front().before_bytes, unmodelled.before_peak_bytes) + held.before_peak_bytes;
  for (size_t i = 0; i < fixed.moments.size(); ++i) {
    RecordedStepCosts::Moment& moment = fixed.moments[i];
    const UnmodelledMemory::Entry& there = held.moments[i];
    moment.ms = moment.host_ms = 0;
    moment.before_bytes =
        lasting[i].before_bytes +
        (moment.kind == RecordedStepCosts::Moment::Kind::unpack ? there.peak_bytes : there.before_bytes);
    moment.peak_bytes = lasting[i].behind_bytes + there.peak_bytes;
  }
  return fixed;
}

}  // namespace memtune::planner
