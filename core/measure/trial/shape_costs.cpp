#include "core/measure/trial/shape_costs.h"

#include <ATen/ATen.h>

#include "core/base/device/torch/shape_device.h"
#include "core/base/error.h"
#include "core/engine/optimizer/optimizer_in_backward.h"
#include "core/engine/step/cuda_shape_kernels.h"
#include "core/measure/trial/interpreted_runner.h"

namespace memtune::trial {
namespace {

constexpr double kNoTimeMs = 1;  // a step has to take time

}  // namespace

std::optional<plan::RecordedOpCosts> record_shape_costs(const plan::TrialRequest& request) {
  const plan::TrainingSettings& training = request.training;
  if (training.ranks > 1) throw UsageError("--ranks: shapes predict a training on one GPU");
  step::allocate_as_cuda();
  InterpretedRunner runner(request);
  const int64_t workspace_bytes = step::cublas_workspace_bytes(device::shape_capability(training.device));
  const at::Tensor workspace = at::empty({workspace_bytes}, at::TensorOptions(c10::kMeta).dtype(at::kByte));
  const auto optimizer = runner.make_optimizer(training);
  std::optional<optimizer::OptimizerInBackward> in_backward;
  if (training.optimizer_in_backward) in_backward.emplace(*optimizer);
  optimizer->make_states();
  StepObserver& recorder = *runner.start_costs();
  recorder.begin_forward();
  runner.forward_backward();
  recorder.begin_optimizer();
  optimizer->step();
  recorder.end_optimizer();
  recorder.end_step();
  std::optional<plan::RecordedOpCosts> costs = runner.finish_costs();
  if (!costs) return {};
  costs->states = runner.state_costs(*optimizer);
  costs->step_ms = kNoTimeMs;
  return costs;
}

}  // namespace memtune::trial
