// Trains under a plan, with saves between steps: memtune run.
#pragma once

#include "core/plan/request/run_request.h"
#include "core/record/measurement/training.h"
#include "core/measure/trial/frames.h"
#include "core/measure/trial/runner.h"

namespace memtune::trial {

// A failed save is reported, and the run continues. After SIGTERM it saves and ends early. Throws UsageError for errors
// of the user, including a state that cannot be loaded, and what ops and engines throw.
result::TrainingResult train(const plan::RunRequest& request, Runner& runner, Frames& frames);

}  // namespace memtune::trial
