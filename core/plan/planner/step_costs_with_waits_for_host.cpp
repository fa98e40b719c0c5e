#include "core/plan/planner/step_costs_with_waits_for_host.h"

#include <algorithm>

#include "core/plan/planner/simulated_compute_and_host_clock.h"

namespace memtune::planner {
namespace {

using plan::RecordedStepCosts;

// Replaces recorded times of the device by those from one entry to the next.
void issue(RecordedStepCosts& costs) {
  SimulatedComputeAndHostClock clock{.issues = true};
  for (size_t i = 0; i < costs.runs.size(); ++i) {
    costs.runs[i].ms = clock.run(costs.runs[i].ms, costs.issue.runs[i].ms);
    if (costs.issue.runs[i].waits) clock.read_result();
  }
  costs.before_ms = clock.run(costs.before_ms, costs.issue.before_ms);
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    RecordedStepCosts::Moment& moment = costs.moments[i];
    if (moment.kind == RecordedStepCosts::Moment::Kind::unpack)
      moment.ms = clock.run(moment.ms, costs.issue.moments[i].ms);
    if (costs.issue.moments[i].waits) clock.read_result();
  }
  const double began = clock.compute;
  clock.run_parts(costs.after_ms, costs.issue.after_ms);
  costs.after_ms = clock.compute - began;
  costs.issue = {};
}

}  // namespace

StepCostsWithWaitsForHost issue_step(const RecordedStepCosts& costs) {
  StepCostsWithWaitsForHost step{.costs = costs};
  if (costs.has_issue_times()) issue(step.costs);
  step.step_ms = step.costs.recorded_ms(costs.passes);
  step.pass_ms = step.costs.recorded_ms(1);
  step.idle_ms = std::max(0.0, step.pass_ms - costs.recorded_ms(1));
  return step;
}

}  // namespace memtune::planner
