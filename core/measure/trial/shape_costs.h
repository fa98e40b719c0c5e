// Costs of a training step from shapes: what it allocates on a CUDA device, op by op, without values, kernels or a GPU.
// Times are zero, that of the step is 1 ms. A step of 8 B parameters takes about a second and some MB.
#pragma once

#include <optional>

#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/request/trial_request.h"

namespace memtune::trial {

// `request`: for a device of shapes ("shapes:90", a GPU of compute capability 9.0), with the plan of no checkpointing.
// Nothing if the recorded steps did not run the same ops. Throws UsageError for an optimizer or a number of ranks that
// shapes do not have, and c10::Error if an operator of the model has no shapes.
std::optional<plan::RecordedStepCosts> record_shape_costs(const plan::TrialRequest& request);

}  // namespace memtune::trial
