// One measured run in this process: the reference step, warm-up, measured steps, traced steps.
#pragma once

#include "core/config/trial_request.h"
#include "core/result/measurement.h"
#include "core/trial/frames.h"

namespace memtune::trial {

// Never throws for what a trial may meet (out of memory, NaN, gradients that differ): those are outcomes with a reason.
// UsageError for the person's mistakes.
result::Measurement run_trial(const config::TrialRequest& request, Frames& frames);

// Loads, lowers and tries the model; sends the `facts` frame.
void inspect(const config::TrialRequest& request, Frames& frames);

}  // namespace memtune::trial
