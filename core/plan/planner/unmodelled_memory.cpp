#include "core/plan/planner/unmodelled_memory.h"

#include <algorithm>

#include "core/plan/planner/step_simulator.h"

namespace memtune::planner {
namespace {

using plan::RecordedStepCosts;
using Kind = RecordedStepCosts::Moment::Kind;

// Subtracts the simulated bytes of the values from a recorded step.
class Beside {
 public:
  Beside(const RecordedStepCosts& costs, const UnmodelledMemory& held) : costs_(costs), held_(held) {}

  UnmodelledMemory find() const {
    UnmodelledMemory unmodelled = UnmodelledMemory::nothing(costs_);
    for (size_t i = 0; i < costs_.runs.size(); ++i)
      unmodelled.runs[i] = {costs_.runs[i].before_bytes - held_.runs[i].before_bytes, 0, held_.runs[i].gathered_bytes};
    for (size_t i = 0; i < costs_.moments.size(); ++i)
      unmodelled.moments[i] = {before(i), costs_.moments[i].peak_bytes - held_.moments[i].peak_bytes,
                               held_.moments[i].gathered_bytes};
    for (size_t i = 0; i < unmodelled.reads.size(); ++i) {
      const RecordedStepCosts::UnitRead& read = costs_.sharding.reads[i];
      unmodelled.reads[i] = {read.before_bytes - held_.reads[i].before_bytes,
                             read.peak_bytes - held_.reads[i].peak_bytes};
    }
    unmodelled.gather_wait_ms = held_.gather_wait_ms;
    unmodelled.before_peak_bytes = costs_.before_peak_bytes - held_.before_peak_bytes;
    unmodelled.after_peak_bytes = costs_.after_peak_bytes - held_.after_peak_bytes;
    return unmodelled;
  }

 private:
  // An unpack was recorded after its recomputation, an end before it freed anything.
  int64_t before(size_t moment) const {
    const UnmodelledMemory::Entry& held = held_.moments[moment];  // before the moment and after it
    const RecordedStepCosts::Moment& recorded = costs_.moments[moment];
    return recorded.before_bytes - (recorded.kind == Kind::unpack ? held.peak_bytes : held.before_bytes);
  }

  const RecordedStepCosts& costs_;
  const UnmodelledMemory& held_;
};

}  // namespace

UnmodelledMemory UnmodelledMemory::nothing(const RecordedStepCosts& costs) {
  UnmodelledMemory none;
  none.runs.resize(costs.runs.size());
  none.moments.resize(costs.moments.size());
  none.reads.resize(costs.sharding.reads.size());
  return none;
}

UnmodelledMemory find_unmodelled_memory(const RecordedStepSimulationTables& tables, const RecordedStepCosts& costs) {
  // The first step has no unmodelled memory yet, the second has it, the third is as each later one.
  constexpr int kSteps = 3;
  SimulatedCachingAllocator cache(costs.grain_bytes);
  UnmodelledMemory unmodelled = UnmodelledMemory::nothing(costs);
  StepSimulator::StepState before;
  for (int step = 0; step < kSteps; ++step) {
    schedule::LearnedMemoryHeadroomTimeline schedule;
    StepSimulator simulator(tables, costs, unmodelled, costs.plan, schedule, cache, {}, before);
    simulator.simulate_step();
    before = simulator.next_step_state();
    unmodelled = Beside(costs, simulator.held()).find();
  }
  return unmodelled;
}

}  // namespace memtune::planner
