// What the parts of a ActivationPlanExecutor share: where the step is, and what observes it.
#pragma once

#include "core/engine/step/running_op_storage_access.h"
#include "core/record/trace/activation_event_recorder.h"

namespace memtune::step {

class StepCostRecorder;

struct StepPositionAndRecorders {
  RunningOpStorageAccess running;
  int block = -1;           // of the running op; -1: none yet
  bool head_begun = false;  // an op after the last block has run
  trace::ActivationEventRecorder* trace = nullptr;
  StepCostRecorder* costs = nullptr;
};

}  // namespace memtune::step
