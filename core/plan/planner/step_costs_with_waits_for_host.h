// The recorded step as the host issues it and the device runs it. Without RecordedStepCosts::IssueTimes, the recorded
// times already contain what the device waited for the host.
#pragma once

#include "core/plan/facts/recorded_step_costs.h"

namespace memtune::planner {

struct StepCostsWithWaitsForHost {
  // Without issue times. The times of runs, moments and the optimizer contain what the device waited for the host.
  plan::RecordedStepCosts costs;
  double step_ms = 0;  // all micro-batches and the optimizer
  double pass_ms = 0;  // of one micro-batch and the optimizer
  double idle_ms = 0;  // what the device waited for the host in pass_ms
};

// Times are as recorded, not scaled to the measured step.
StepCostsWithWaitsForHost issue_step(const plan::RecordedStepCosts& costs);

}  // namespace memtune::planner
