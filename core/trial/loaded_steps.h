// Steps beside traffic of ours: what compute, copies and disk take of each other, for planners.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/config/step_costs.h"
#include "core/config/trial_request.h"
#include "core/profiler/link_load.h"
#include "core/trial/runner.h"

namespace memtune::trial {

class LoadedSteps {
 public:
  // `step` takes one and tells its ms; `step_ms`: alone. Without copies the device is played: they are the processor's,
  // too. The runner outlives it.
  LoadedSteps(Runner& runner, std::unique_ptr<profiler::LinkLoad> copies, double step_ms, std::function<double()> step)
      : runner_(runner), step_ms_(step_ms), step_(std::move(step)), copies_(std::move(copies)) {}
  // Those of a step that takes so long.
  static std::unique_ptr<profiler::LinkLoad> make_copies(device::Device& device, const profiler::Link& link,
                                                         double step_ms);

  // How much longer compute takes for a ms of copies beside it, in ms: steps of one rank with and without copies take
  // turns, as many as this process's clock says: never called where a step is one of several ranks. 0 on a device that
  // is played.
  double copy_slowdown();

  // What the disk of `training.scratch` does beside steps and, on a device, their copies. What cannot be written to is
  // told on stderr, and by the first trial that has to.
  void measure_disk(const config::TrainingSettings& training, config::StepCosts& costs);

 private:
  double step_beside_copies();

  Runner& runner_;
  const double step_ms_;
  const std::function<double()> step_;
  const std::unique_ptr<profiler::LinkLoad> copies_;
};

}  // namespace memtune::trial
