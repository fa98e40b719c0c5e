// One measured run in this process: the reference step, warm-up, measured steps, traced steps.
#pragma once

#include "core/config/trial_request.h"
#include "core/result/measurement.h"
#include "core/trial/frames.h"
#include "core/trial/runner.h"

namespace memtune::trial {

// Failures that a trial may meet (out of memory, NaN, different gradients) are outcomes with a reason, not exceptions.
// Throws UsageError for errors of the user. The runner's plan is the request's.
result::Measurement run_trial(const config::TrialRequest& request, Runner& runner, Frames& frames);

// Loads, lowers and surveys the model; sends the `facts` frame.
void inspect(const config::TrialRequest& request, Frames& frames);

}  // namespace memtune::trial
