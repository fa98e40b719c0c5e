// The recorded step as the host issues it and the device runs it. Without RecordedOpCosts::IssueTimes, the recorded
// times already contain what the device waited for the host.
#pragma once

#include "core/plan/facts/recorded_op_costs.h"

namespace memtune::planner {

struct StepCostsWithHostWaits {
  // Without issue times. The times of runs, moments and the optimizer contain what the device waited for the host.
  plan::RecordedOpCosts costs;
  double step_ms = 0;  // all micro-batches and the optimizer
  double pass_ms = 0;  // of one micro-batch and the optimizer
  double idle_ms = 0;  // what the device waited for the host in pass_ms
};

// Times are as recorded, not scaled to the measured step.
StepCostsWithHostWaits issue_step(const plan::RecordedOpCosts& costs);

}  // namespace memtune::planner
