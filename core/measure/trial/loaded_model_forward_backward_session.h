// A model that is ready to train: loaded, lowered, with its batch. Runs training steps of it under a plan.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "core/base/device/device.h"
#include "core/engine/optimizer/optimizer.h"
#include "core/engine/step/activation_plan_executor.h"
#include "core/measure/trial/reference.h"
#include "core/model/frontend/inputs.h"
#include "core/model/frontend/loss.h"
#include "core/model/program/interpreter.h"
#include "core/plan/request/trial_request.h"

namespace memtune::trial {

enum class RealOrShapeOnlyTensorMode { with_values, shapes_only };

class LoadedModelForwardBackwardSession {
 public:
  // Throws UsageError for errors of the user: file, inputs, names. A session of shapes can only be surveyed: no weight
  // is created or read, and no kernel runs.
  explicit LoadedModelForwardBackwardSession(
      const plan::TrialRequest& request, RealOrShapeOnlyTensorMode tensors = RealOrShapeOnlyTensorMode::with_values);

  // True if shapes are enough for a survey: a decoder made from its config, on a CPU, without inputs from a file. (A
  // GPU is fast enough, and chooses among more kernels.)
  static bool shapes_suffice(const plan::ModelAndInputSource& model, const plan::TrainingSettings& training);

  // The source of the model's parameters from now on; null, the default: the program's own.
  void set_parameters(program::OpAndPhaseParameterResidencyHooks* parameters);

  // `call` runs in each step when its first backward begins.
  void set_before_backward(std::function<void()> call) { before_backward_ = std::move(call); }

  // Runs one forward, in no more memory than without gradients. It measures the activations in facts(), and throws
  // UsageError for inputs that the model rejects, before any trial. Restores buffers and generators. Only the first
  // call counts: the constructor makes it for a model without blocks, to cut that into segments. A session of shapes
  // throws c10::NotImplementedError, here or in the constructor, if the shapes of an op depend on values.
  void survey();

  // The loss before any update: no step, no statistics, no deterministic kernels. Restores everything.
  double untouched_loss(step::ActivationPlanExecutor* executor);

  // Computes loss and gradients, and restores everything else.
  at::Tensor untouched_step(step::ActivationPlanExecutor* executor);

  // Memory of parameters into which a forward writes, also through views or `.data`. Runs a forward that keeps nothing;
  // what it writes there stays.
  std::set<const void*> written_memory();

  // Forward and backward of a step. With gradient accumulation each micro-batch has an equal share of the loss.
  // `executor` null: plain autograd, no hooks. Gradients stay on the parameters. Returns the mean loss, still on the
  // device.
  at::Tensor forward_backward(step::ActivationPlanExecutor* executor, program::OpObserver* observer);

  device::Device& device() { return *device_; }
  const plan::ProgramFacts& facts() const { return facts_; }
  const program::Program& program() const { return *program_; }
  const frontend::TrainingBatch& batch() const { return batch_; }
  frontend::LossKind loss() const { return loss_; }
  const NamedParameters& parameters() const { return program_->state.parameters; }
  // "aten::linear at model.py:42" after a forward that threw; "" when the backward did.
  std::string where() const { return in_forward_ ? interpreter_->where() : ""; }
  bool in_forward() const { return in_forward_; }

 private:
  at::Tensor forward(step::ActivationPlanExecutor* executor, program::OpObserver* observer);

  const plan::TrialRequest& request_;
  std::unique_ptr<device::Device> device_;
  c10::Device place_;  // of the tensors
  frontend::LossKind loss_;
  std::unique_ptr<program::Program> program_;
  plan::ProgramFacts facts_;
  frontend::TrainingBatch batch_;
  std::unique_ptr<program::Interpreter> interpreter_;
  std::vector<bool> written_;  // inputs that the program writes into
  program::OpAndPhaseParameterResidencyHooks* parameters_ = nullptr;
  std::function<void()> before_backward_;
  bool in_forward_ = false;
  bool surveyed_ = false;
};

}  // namespace memtune::trial
