// Runs steps together with generated traffic, to measure for planners how compute, copies and disk slow each other
// down.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/measure/profiler/link_load_generator.h"
#include "core/measure/trial/forward_backward_runner.h"
#include "core/plan/facts/recorded_step_costs.h"
#include "core/plan/request/trial_request.h"

namespace memtune::trial {

class ComputeCopyDiskInterferenceProbe {
 public:
  // `step` runs one step and returns its ms; `step_ms`: of a step alone. `copies` is null on an emulated device, whose
  // copies are made by the processor too. The runner outlives it.
  ComputeCopyDiskInterferenceProbe(ForwardBackwardRunner& runner, std::unique_ptr<profiler::LinkLoadGenerator> copies,
                                   double step_ms, std::function<double()> step)
      : runner_(runner), step_ms_(step_ms), step_(std::move(step)), copies_(std::move(copies)) {}
  // Copies for a step of that duration; null on an emulated device.
  static std::unique_ptr<profiler::LinkLoadGenerator> make_copies(device::Device& device,
                                                                  const profiler::LinkBandwidth& link, double step_ms);

  // How many ms longer compute takes per ms of copies in parallel; 0 on an emulated device. Steps with and without
  // copies alternate. Their number depends on this process's clock, so never call it if a step involves several ranks.
  double copy_slowdown();

  // Measures the disk of `training.scratch` during steps and, on a device, their copies. If it cannot be written to,
  // stderr says so, and the first trial that needs it reports it.
  void measure_disk(const plan::TrainingSettings& training, plan::RecordedStepCosts& costs);

 private:
  double step_with_copies();

  ForwardBackwardRunner& runner_;
  const double step_ms_;
  const std::function<double()> step_;
  const std::unique_ptr<profiler::LinkLoadGenerator> copies_;
};

}  // namespace memtune::trial
