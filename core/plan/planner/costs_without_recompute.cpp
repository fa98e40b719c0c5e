#include "core/plan/planner/costs_without_recompute.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/plan/planner/step_predictor.h"
#include "core/plan/planner/step_simulator.h"

namespace memtune::planner {
namespace {

using plan::RecordedStepCosts;

// Allocated memory is never negative, even if a file contains such numbers.
int64_t sum(int64_t unmodelled, int64_t held) { return std::max<int64_t>(0, unmodelled + held); }

void keep_bytes(const UnmodelledMemory& unmodelled, const UnmodelledMemory& held, RecordedStepCosts& costs) {
  for (size_t i = 0; i < costs.runs.size(); ++i)
    costs.runs[i].before_bytes = sum(unmodelled.runs[i].before_bytes, held.runs[i].before_bytes);
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    RecordedStepCosts::Moment& moment = costs.moments[i];
    moment.before_bytes = sum(unmodelled.moments[i].before_bytes, held.moments[i].before_bytes);
    moment.peak_bytes = sum(unmodelled.moments[i].peak_bytes, held.moments[i].peak_bytes);
  }
  for (size_t i = 0; i < costs.sharding.reads.size(); ++i) {
    RecordedStepCosts::UnitRead& read = costs.sharding.reads[i];
    read.before_bytes = sum(unmodelled.reads[i].before_bytes, held.reads[i].before_bytes);
    read.peak_bytes = sum(unmodelled.reads[i].peak_bytes, held.reads[i].peak_bytes);
  }
  costs.before_peak_bytes = sum(unmodelled.before_peak_bytes, held.before_peak_bytes);
  costs.after_peak_bytes = sum(unmodelled.after_peak_bytes, held.after_peak_bytes);
}

// Calls `see` after each of two simulated steps; the second is like all later ones.
template <class See>
void simulate_twice(const RecordedStepSimulationTables& tables, const UnmodelledMemory& unmodelled,
                    const RecordedStepCosts& costs, const plan::Plan& plan, See see) {
  schedule::LearnedMemoryHeadroomTimeline schedule;
  SimulatedCachingAllocator cache(costs.grain_bytes);
  StepSimulator::StepState before;
  for (int step = 0; step < 2; ++step) {
    StepSimulator simulator(tables, costs, unmodelled, plan, schedule, cache, {}, before);
    simulator.simulate_step();
    before = simulator.next_step_state();
    see(simulator);
  }
}

struct Recorded {
  double rerun_ms = 0, gather_wait_ms = 0, wait_in_reruns_ms = 0;
};

Recorded simulate_recorded(const RecordedStepSimulationTables& tables, const UnmodelledMemory& unmodelled,
                           const RecordedStepCosts& costs) {
  Recorded recorded;
  simulate_twice(tables, unmodelled, costs, costs.plan, [&](const StepSimulator& step) {
    const ParameterGatherSimulator& gathers = step.gathers();
    recorded = {step.values().rerun_ms(), gathers.waited_ms(), gathers.waited_in_reruns_ms()};
  });
  return recorded;
}

UnmodelledMemory all_held(const RecordedStepSimulationTables& tables, const UnmodelledMemory& unmodelled,
                          const RecordedStepCosts& costs) {
  UnmodelledMemory held;
  simulate_twice(tables, unmodelled, costs, {}, [&](const StepSimulator& step) { held = step.held(); });
  return held;
}

// Recorded ops run with gaps between them. In a step, the power limit lowers clocks, and copies take memory bandwidth.
// So compute is scaled until the recorded step is predicted as it was measured. Copies are not: if the step waits for
// them, more compute does not bring it nearer, and the best scale so far stays.
void calibrate(const plan::ProgramFacts& facts, const plan::Plan& recorded, double measured_ms,
               RecordedStepCosts& costs) {
  constexpr int kRounds = 6;
  constexpr double kLeast = 0.67, kMost = 1.5;  // of the recorded times
  const double least_ms = kLeast * costs.step_ms, most_ms = kMost * costs.step_ms;
  double best_ms = costs.step_ms, best_apart_ms = std::numeric_limits<double>::max();
  for (int i = 0; i < kRounds; ++i) {
    const double predicted_ms = StepPredictor(facts, costs).predict(recorded, {.states = true}).step_ms;
    const double apart_ms = std::abs(measured_ms - predicted_ms);
    if (apart_ms >= best_apart_ms) break;
    best_ms = costs.step_ms;
    best_apart_ms = apart_ms;
    costs.step_ms = std::clamp(costs.step_ms + measured_ms - predicted_ms, least_ms, most_ms);
  }
  costs.step_ms = best_ms;
}

RecordedStepCosts without_recompute(const plan::ProgramFacts& facts, RecordedStepCosts costs) {
  if (costs.plan.keeps_everything()) return costs;
  const RecordedStepSimulationTables tables(facts, costs);
  const UnmodelledMemory unmodelled = find_unmodelled_memory(tables, costs);
  const Recorded recorded = simulate_recorded(tables, unmodelled, costs);
  const UnmodelledMemory kept = all_held(tables, unmodelled, costs);
  keep_bytes(unmodelled, kept, costs);
  const double rerun_ms = tables.scale * costs.rerun_ms;  // as recorded, waits for gathers included
  if (recorded.rerun_ms > 0)
    costs.rerun_ratio *= std::max(0.0, rerun_ms - recorded.wait_in_reruns_ms) / recorded.rerun_ms;
  const double other_waits_ms = recorded.gather_wait_ms - recorded.wait_in_reruns_ms;
  costs.step_ms -= costs.passes * (rerun_ms + other_waits_ms - kept.gather_wait_ms);
  costs.rerun_ms = 0;
  costs.plan = {};
  return costs;
}

}  // namespace

RecordedStepCosts costs_without_recompute(const plan::ProgramFacts& facts, RecordedStepCosts costs) {
  plan::Plan recorded = costs.plan;
  recorded.states = std::exchange(costs.states.placements, {});
  const double measured_ms = std::exchange(costs.states.measured_ms, 0);
  costs = without_recompute(facts, std::move(costs));
  if (measured_ms > 0 && costs.passes == 1 && recorded.offloads_states())
    calibrate(facts, recorded, measured_ms, costs);
  return costs;
}

}  // namespace memtune::planner
