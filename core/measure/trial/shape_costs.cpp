#include "core/measure/trial/shape_costs.h"

#include "core/base/error.h"
#include "core/engine/optimizer/optimizer_in_backward.h"
#include "core/measure/trial/interpreted_forward_backward_runner.h"

namespace memtune::trial {
namespace {

constexpr double kNoTimeMs = 1;  // a step has to take time

}  // namespace

std::optional<plan::RecordedStepCosts> record_shape_costs(const plan::TrialRequest& request) {
  const plan::TrainingSettings& training = request.training;
  if (training.ranks > 1) throw UsageError("--ranks: shapes predict a training on one GPU");
  InterpretedForwardBackwardRunner runner(request);
  const auto optimizer = runner.make_optimizer(training);
  std::optional<optimizer::OptimizerInBackward> in_backward;
  if (training.optimizer_in_backward) in_backward.emplace(*optimizer);
  optimizer->make_states();
  StepPhaseObserver& recorder = *runner.start_costs();
  recorder.begin_forward();
  runner.forward_backward();
  recorder.begin_optimizer();
  optimizer->step();
  recorder.end_optimizer();
  recorder.end_step();
  std::optional<plan::RecordedStepCosts> costs = runner.finish_costs();
  if (!costs) return {};
  costs->states = runner.state_costs(*optimizer);
  costs->step_ms = kNoTimeMs;
  return costs;
}

}  // namespace memtune::trial
