#include "core/measure/trial/loaded_model_forward_backward_session.h"

#include <ATen/Context.h>
#include <c10/core/AutogradState.h>

#include <utility>

#include "core/base/device/torch/make_device.h"
#include "core/base/device/torch/shape_only_meta_device.h"
#include "core/base/device/torch/torch_device.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/engine/step/cpu_kernel_shapes.h"
#include "core/engine/step/cuda_shape_kernels.h"
#include "core/engine/step/forward_op_allocation_and_flops_profiler.h"
#include "core/engine/step/shape_kernels.h"
#include "core/model/frontend/columns.h"
#include "core/model/frontend/front_end.h"
#include "core/model/frontend/rejection.h"
#include "core/model/frontend/requested_input_specs_and_tensors.h"
#include "core/model/ops/autocast.h"
#include "core/model/program/blocks.h"
#include "core/model/program/buffer_and_rng_state_guard.h"
#include "core/model/program/facts.h"
#include "core/model/program/segments.h"
#include "core/model/program/written_inputs.h"
#include "core/plan/request/trial_request.h"

namespace memtune::trial {
namespace {

constexpr int kAnyCapability = 80;  // what attention saves differs by a few bytes

// Around the forward and the loss, as in trainers; the backward follows the forward's dtypes. "": unchanged.
ops::AutocastState autocast_of(const std::string& dtype, c10::DeviceType device) {
  if (dtype.empty()) return ops::AutocastState::now(device);
  return {true, dtype == "float16" ? at::kHalf : at::kBFloat16};
}

// Records into which parameters' memory ops write.
class Writes final : public program::OpObserver {
 public:
  Writes(program::OpObserver& next, const NamedParameters& parameters) : next_(next) {
    for (const auto& [name, parameter] : parameters) parameters_.insert(parameter.storage().data());
  }
  void before(const program::Op& op, const program::Stack& inputs) override {
    for (size_t i = 0; i < op.writes.size() && i < inputs.size(); ++i)
      if (op.writes[i]) note(inputs[i]);
    next_.before(op, inputs);
  }
  void after(const program::Op& op, const program::Stack& outputs) override { next_.after(op, outputs); }
  const std::set<const void*>& memory() const { return memory_; }

 private:
  void note(const c10::IValue& written) {
    if (written.isTensorList())
      for (const at::Tensor& tensor : written.toTensorVector()) note(tensor);
    if (written.isTensor() && written.toTensor().defined()) note(written.toTensor());
  }
  void note(const at::Tensor& tensor) {
    if (tensor.has_storage() && parameters_.contains(tensor.storage().data())) memory_.insert(tensor.storage().data());
  }

  program::OpObserver& next_;
  std::set<const void*> parameters_, memory_;
};

}  // namespace

bool LoadedModelForwardBackwardSession::shapes_suffice(const plan::ModelAndInputSource& model,
                                                       const plan::TrainingSettings& training) {
  const size_t tokens = training.loss == "embedding" ? kPairColumns.size() : 1;
  return training.device == "cpu" && training.autocast.empty() && model.inputs_file.empty() &&
         model.inputs.size() <= tokens && frontend::probe(model).has_config();
}

LoadedModelForwardBackwardSession::LoadedModelForwardBackwardSession(const plan::TrialRequest& request,
                                                                     RealOrShapeOnlyTensorMode tensors)
    : request_(request),
      device_(device::make_device(request.training.device)),
      place_(tensors == RealOrShapeOnlyTensorMode::shapes_only ? c10::Device(c10::kMeta)
                                                               : device::torch_device(*device_)),
      loss_(frontend::parse_loss(request.training.loss)) {
  const auto& training = request.training;
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  if (device::shape_capability(training.device) >= 0) step::take_missing_shapes_from_cpu_kernels();
  program::Program model =
      frontend::lower({request.model, training.dtype, place_, training.seed,
                       frontend::known_sequence(request.model, training), training.attention, training.pack,
                       frontend::has_padding(request.model, training), training.autocast, training.load_in,
                       training.lora, frontend::head_for(loss_), request.plan.offloads_states() && !place_.is_meta()});
  if (loss_ == frontend::LossKind::embedding) model = frontend::in_columns(std::move(model));
  if (const int capability = device::shape_capability(training.device); capability >= 0)
    step::use_cuda_kernels(model, capability);
  else if (tensors == RealOrShapeOnlyTensorMode::shapes_only && device::torch_device(*device_).is_cuda())
    step::use_cuda_kernels(model, kAnyCapability);
  else if (tensors == RealOrShapeOnlyTensorMode::shapes_only)
    step::use_cpu_attention_kernels(model);
  const std::string target = frontend::choose_target(request.model, training, loss_, model.inputs);
  program_ = std::make_unique<program::Program>(
      frontend::with_loss(model, loss_, target, training.output, parse_loss_implementation(training.loss_impl)));
  facts_ = program::facts(*program_, program::find_blocks(*program_, training.blocks));
  batch_ = frontend::make_batch(request, loss_, model, place_);
  for (const std::string& guess : batch_.guessed)
    facts_.notes.push_back(guess + " is a guess, because the file does not define it; set it with --input");
  interpreter_ = std::make_unique<program::Interpreter>(*program_);
  written_ = program::written_inputs(*program_);
  if (!facts_.blocks.empty()) return;
  if (const auto& weights = program_->state.host_weights)
    for (const auto& [name, parameter] : program_->state.parameters) weights->restore(parameter);
  survey();  // in every trial, so that plans and engines use the same segments
  program::cut_into_segments(*program_, facts_);
}

void LoadedModelForwardBackwardSession::survey() {
  if (std::exchange(surveyed_, true)) return;
  program::BufferAndRngStateGuard restore(program_->state, device::torch_device(*device_));
  try {
    plan::ProgramFacts measured = facts_;
    const c10::DeviceType type = place_.type();
    step::ForwardOpAllocationAndFlopsProfiler survey(*program_, measured, type);
    ops::AutocastScope autocast(type, autocast_of(request_.training.autocast, type));
    autograd::SavedTensorHooksScope hooks(&survey);
    auto loss = interpreter_->run(program::unwritten(batch_.tensors, written_), &survey);
    if (!loss.isTensor() || loss.toTensor().numel() != 1)
      throw UsageError(
          "the loss is not a single number: with --loss returned the model must return its loss; --output NAME|INDEX "
          "selects the part of its output");
    device_->synchronize();  // on CUDA an index out of range shows here
    facts_ = std::move(measured);
    if (!program_->answer_note->empty()) facts_.notes.push_back(*program_->answer_note);
  } catch (const c10::OutOfMemoryError&) {
    device_->empty_cache();  // a trial will report it, with what it needs
  } catch (...) {
    if (place_.is_meta()) throw;
    frontend::rethrow_as_rejection(request_.training, program_->kind, batch_, interpreter_->where());
  }
}

void LoadedModelForwardBackwardSession::set_parameters(program::OpAndPhaseParameterResidencyHooks* parameters) {
  parameters_ = parameters;
  interpreter_->set_parameters(parameters);
}

double LoadedModelForwardBackwardSession::untouched_loss(step::ActivationPlanExecutor* executor) {
  program::BufferAndRngStateGuard restore(program_->state, device::torch_device(*device_));
  if (parameters_) parameters_->begin_step();
  const double loss = forward(executor, executor).item<double>();
  if (parameters_) parameters_->drop();
  return loss;
}

at::Tensor LoadedModelForwardBackwardSession::untouched_step(step::ActivationPlanExecutor* executor) {
  program::BufferAndRngStateGuard restore(program_->state, device::torch_device(*device_));
  return forward_backward(executor, executor);
}

std::set<const void*> LoadedModelForwardBackwardSession::written_memory() {
  program::BufferAndRngStateGuard restore(program_->state, device::torch_device(*device_));
  plan::ProgramFacts measured = facts_;
  const c10::DeviceType type = device::torch_device(*device_).type();
  step::ForwardOpAllocationAndFlopsProfiler survey(*program_, measured, type);
  Writes writes(survey, parameters());
  ops::AutocastScope autocast(type, autocast_of(request_.training.autocast, type));
  autograd::SavedTensorHooksScope hooks(&survey);
  interpreter_->run(program::unwritten(batch_.tensors, written_), &writes);
  return writes.memory();
}

at::Tensor LoadedModelForwardBackwardSession::forward(step::ActivationPlanExecutor* executor,
                                                      program::OpObserver* observer) {
  in_forward_ = true;
  at::Tensor loss;
  if (executor) executor->begin_step();
  if (parameters_) parameters_->begin_forward();
  {
    const c10::DeviceType type = device::torch_device(*device_).type();
    ops::AutocastScope autocast(type, autocast_of(request_.training.autocast, type));
    autograd::SavedTensorHooksScope hooks(executor);
    loss = interpreter_->run(program::unwritten(batch_.tensors, written_), observer ? observer : executor).toTensor();
  }
  if (executor) executor->end_forward();
  in_forward_ = false;
  return loss;
}

at::Tensor LoadedModelForwardBackwardSession::forward_backward(step::ActivationPlanExecutor* executor,
                                                               program::OpObserver* observer) {
  const int passes = request_.training.accumulate;
  at::Tensor sum;
  if (parameters_) parameters_->begin_step();
  for (int pass = 0; pass < passes; ++pass) {
    at::Tensor loss = forward(executor, observer);
    if (passes > 1) loss = loss / passes;
    if (pass == 0 && before_backward_) before_backward_();
    if (parameters_) parameters_->begin_backward();
    autograd::backward(loss);
    if (parameters_) parameters_->end_backward();
    loss = loss.detach();
    sum = sum.defined() ? sum.add_(loss) : loss;
  }
  return sum;
}

}  // namespace memtune::trial
