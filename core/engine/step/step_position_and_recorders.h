// What the parts of a ActivationPlanExecutor share: where the step is, and what observes it.
#pragma once

#include "core/engine/step/running_op_storages_and_pending_saves.h"
#include "core/record/trace/activation_event_recorder.h"

namespace memtune::step {

class OpAndSavedTensorCostRecorder;

struct StepPositionAndRecorders {
  RunningOpStoragesAndPendingSaves running;
  int block = -1;           // of the running op; -1: none yet
  bool head_begun = false;  // an op after the last block has run
  trace::ActivationEventRecorder* trace = nullptr;
  OpAndSavedTensorCostRecorder* costs = nullptr;
};

}  // namespace memtune::step
