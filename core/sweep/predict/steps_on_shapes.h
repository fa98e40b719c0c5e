// A model's steps on tensors that have shapes but no values, in processes of their own. Bytes are those of a CUDA
// device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/plan/facts/machine_profile.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/strategy/plan.h"
#include "core/sweep/loop/sweep.h"
#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

struct ShapeOnlyStepFactsAndCosts {
  plan::ProgramFacts program;
  std::string inputs;
  plan::RecordedStepCosts costs;  // bytes; times are not those of a card
};

struct ShapeOnlyStepPeakBytes {
  int64_t allocated = 0, reserved = 0;
};

// Records a step at the first of the batches and sequence lengths. Throws UsageError if the model or training cannot be
// predicted. Empty after a signal.
std::optional<ShapeOnlyStepFactsAndCosts> record_on_shapes(
    const EngineSweepSettings& settings, const plan::MachineProfile& card,
    const std::function<void(const TrialPhaseProgress&)>& progress = {});

// Offloaded tensors would need time to leave, so plans that offload are simulated instead.
bool runs_on_shapes(const plan::Plan& plan);
// Peaks of steps under the plan, with every allocation in its order. Nothing if the process fails. Thread: any.
std::optional<ShapeOnlyStepPeakBytes> run_on_shapes(const EngineSweepSettings& settings,
                                                    const plan::MachineProfile& card, const plan::Plan& plan);

}  // namespace memtune::sweep
