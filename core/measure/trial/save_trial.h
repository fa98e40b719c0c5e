// Measures what one save mode of kSaveModes costs a training, in a process of its own. It takes steps without
// saves, then saves one after another. Steps continue during each save until it ends, and two more follow.
#pragma once

#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/trial_frame_writer.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/record/measurement/state_save_mode_measurement.h"

namespace memtune::trial {

// Saves `request.saves` times into its folder, and loads the last state. A failed save ends it, with the reason. Throws
// what ops, engines and states throw, except for out of device memory.
result::StateSaveModeMeasurement measure_saves(const plan::ResumableTrainingRequest& request,
                                               ForwardBackwardRunner& runner, TrialFrameWriter& frames);

}  // namespace memtune::trial
