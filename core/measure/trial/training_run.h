// Trains under a plan, with saves between steps: memtune run.
#pragma once

#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/trial_frame_writer.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/record/measurement/training.h"

namespace memtune::trial {

// A failed save is reported, and the run continues. After SIGTERM it saves and ends early. Throws UsageError for errors
// of the user, including a state that cannot be loaded, and what ops and engines throw.
result::ResumableTrainingResult train(const plan::ResumableTrainingRequest& request, ForwardBackwardRunner& runner,
                                      TrialFrameWriter& frames);

}  // namespace memtune::trial
