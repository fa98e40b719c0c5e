#include "core/plan/planner/step_predictor.h"

#include <algorithm>

#include "core/base/bounds.h"
#include "core/plan/planner/step_simulator.h"

namespace memtune::planner {

StepPredictor::StepPredictor(const plan::ProgramFacts& facts, const plan::RecordedStepCosts& costs)
    : costs_(costs), tables_(facts, costs), unmodelled_(find_unmodelled_memory(tables_, costs)) {}

StepPrediction StepPredictor::predict(const plan::Plan& plan, const AllowedOffloadTiersAndHostBudget& tiers,
                                      RecomputeAndWaitTimesOfSimulatedStep* log,
                                      const SimulatedDeviceSizeAndExpandableSegments& device) const {
  schedule::LearnedMemoryHeadroomTimeline schedule;
  StepSimulator::StepState before;
  int64_t host_bytes = 0, disk_bytes = 0;  // peaks over all steps
  size_t learned_peak_entry = 0;
  const auto note = [&](const StepSimulator& step) {
    before = step.next_step_state();
    host_bytes = std::max(host_bytes, step.tier().host_peak_bytes());
    disk_bytes = std::max(disk_bytes, step.tier().counters().peak_disk_bytes);
  };
  SimulatedCachingAllocator cache(costs_.grain_bytes);
  const int64_t start_bytes = std::max<int64_t>(0, costs_.start_bytes - offloaded_state_bytes(costs_, plan));
  const int64_t lasting_bytes = bounded_sum(start_bytes, costs_.device_overhead_bytes);
  const bool limited = device.bytes > 0 && costs_.grain_bytes > 1;
  const bool grows = device.expandable_segments || costs_.expandable_segments;
  if (grows) cache.expand_segments();
  if (limited) cache.set_cap(std::max<int64_t>(1, device.bytes - lasting_bytes));
  if (plan.offloads_activations() || plan.offloads_states() || costs_.grain_bytes > 1 || costs_.sharded()) {
    StepSimulator first(tables_, costs_, unmodelled_, plan, schedule, cache, tiers, before);
    // What follows the forward leaves segments behind, and a sharded step learns the order of gathers in backward.
    if (plan.offloads_activations() && !plan.offloads_states() && !costs_.sharded() && !limited)
      first.forward();
    else
      first.simulate_step();
    note(first);
  }
  if (plan.offloads_activations()) {
    if (plan.transfer.compatibility.learns) schedule.begin_learning();
    StepSimulator learning(tables_, costs_, unmodelled_, plan, schedule, cache, tiers, before);
    learning.simulate_step();
    note(learning);
    learned_peak_entry = learning.peak_entry();
    if (schedule.learning()) schedule.end_learning(learning.forward_peak(), learning.memory().interval_peak());
  }
  // Where a segment grew too large in an earlier step, the allocator returned what was free and went on.
  if (grows && cache.shortage_bytes() > 0) cache.begin_again();
  StepSimulator simulator(tables_, costs_, unmodelled_, plan, schedule, cache, tiers, before);
  simulator.keep_log(log);
  cache.reset_peak();
  simulator.simulate_step();
  note(simulator);
  const int passes = costs_.passes;
  const SimulatedComputeAndHostClock& clock = simulator.clock();
  const SavedActivationSimulator& values = simulator.values();
  const DeviceHostCopySimulator& copies = simulator.copies();
  const double hidden_ms = std::max(0.0, copies.copy_ms() - clock.waited);
  // Waits for gathers beyond those of a step with everything kept.
  const double gather_wait_ms = simulator.gathers().waited_ms() - unmodelled_.gather_wait_ms;
  const bool gathers_once = schedule::parse_reshard(costs_.sharding.reshard) == schedule::ReshardPolicy::never;
  const double more_ms =
      tables_.issues ? simulator.end_ms() - tables_.pass_ms : values.rerun_ms() + clock.waited + gather_wait_ms;
  const int64_t peak_bytes = std::max(schedule.goal_bytes(), simulator.memory().peak());
  return {
      .step_ms = costs_.step_ms + passes * (more_ms + costs_.copy_slowdown * hidden_ms),
      .peak_bytes = peak_bytes,
      .required_bytes = limited ? bounded_sum(lasting_bytes, cache.peak_reserved_bytes())
                                : bounded_sum(peak_bytes, costs_.device_overhead_bytes),
      .short_bytes = cache.shortage_bytes(),
      .lasting_short_bytes = cache.lasting_shortage_bytes(),
      .recomputed_ops = bounded_product(passes, values.reruns()),
      .recomputed_bytes = bounded_product(passes, values.recomputed_bytes()),
      .recompute_ms = passes * values.rerun_ms(),
      .out_bytes = bounded_sum(bounded_product(passes, copies.out_bytes()), simulator.states().out_bytes()),
      .in_bytes = bounded_sum(bounded_product(passes, copies.in_bytes()), simulator.states().in_bytes()),
      .wait_ms = passes * clock.waited,
      .host_peak_bytes = bounded_sum(host_bytes, simulator.states().host_bytes()),
      .disk_write_bytes = bounded_product(passes, simulator.tier().counters().disk_write_bytes),
      .disk_read_bytes = bounded_product(passes, simulator.tier().counters().disk_read_bytes),
      .disk_peak_bytes = disk_bytes,
      .gathered_bytes = bounded_product(gathers_once ? 1 : passes, simulator.gathers().gathered_bytes()),
      .peak_entry = schedule.goal_bytes() > simulator.memory().peak() ? learned_peak_entry : simulator.peak_entry()};
}

}  // namespace memtune::planner
