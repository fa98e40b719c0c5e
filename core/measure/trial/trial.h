// One measured run in this process: the reference step, warm-up, measured steps, traced steps.
#pragma once

#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/trial_frame_writer.h"
#include "core/plan/request/trial_request.h"
#include "core/record/measurement/trial_measurement.h"

namespace memtune::trial {

// Failures that a trial may meet (out of memory, NaN, different gradients) are outcomes with a reason, not exceptions.
// Throws UsageError for errors of the user. The runner's plan is the request's.
result::TrialMeasurement run_trial(const plan::TrialRequest& request, ForwardBackwardRunner& runner,
                                   TrialFrameWriter& frames);

// Loads, lowers and surveys the model; sends the `facts` frame.
void inspect(const plan::TrialRequest& request, TrialFrameWriter& frames);

}  // namespace memtune::trial
