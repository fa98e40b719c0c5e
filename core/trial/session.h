// A model that is ready to train: loaded, lowered, with its batch; and one training step of it under a plan.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "core/config/trial_request.h"
#include "core/device/device.h"
#include "core/frontend/inputs.h"
#include "core/frontend/loss.h"
#include "core/optimizer/optimizer.h"
#include "core/program/interpreter.h"
#include "core/step/executor.h"
#include "core/trial/reference.h"

namespace memtune::trial {

enum class Tensors { with_values, of_shapes };

class Session {
 public:
  // UsageError for whatever the person can fix: file, inputs, names. One of shapes can be surveyed and nothing else: no
  // weight is made or read, no kernel runs.
  explicit Session(const config::TrialRequest& request, Tensors tensors = Tensors::with_values);

  // Whether shapes tell of the model all that a survey asks: a decoder written from its config, for a CPU, whose
  // numbers nobody brought. (A GPU is fast enough, and chooses among more kernels.)
  static bool shapes_tell(const config::TrialRequest& request);

  // Who has the model's parameters from now on; null, as in the beginning: they are all here.
  void set_parameters(program::ParameterSource* parameters);

  // Called in each step where its first backward begins.
  void set_before_backward(std::function<void()> call) { before_backward_ = std::move(call); }

  // One forward, which needs no more memory than one without gradients: measures what facts() has of values, and tells
  // inputs that the model rejects (UsageError) before any trial. Buffers and generators are left as they were. Once: a
  // model without blocks has been looked at from the start, to be cut into segments. c10::NotImplementedError from a
  // session of shapes, survey or constructor, where an operator tells its shapes by values alone.
  void survey();

  // The loss before anything has moved: no step, no statistics, no deterministic kernels. Leaves everything as it was.
  double untouched_loss(step::Executor* executor);

  // Loss and gradients, and everything else left as it was.
  at::Tensor untouched_step(step::Executor* executor);

  // Of the parameters' memory, that which a forward writes into, through views or `.data` too. Runs one that keeps
  // nothing; what it writes there stays.
  std::set<const void*> written_memory();

  // Forward and backward of a step: where gradients are accumulated so often, of an equal share of the loss each time.
  // `executor` null: plain autograd, no hooks. Gradients are left on the parameters. The loss, their mean, is still on
  // the device.
  at::Tensor forward_backward(step::Executor* executor, program::OpObserver* observer);

  device::Device& device() { return *device_; }
  const config::ProgramFacts& facts() const { return facts_; }
  const program::Program& program() const { return *program_; }
  const frontend::Batch& batch() const { return batch_; }
  frontend::Loss loss() const { return loss_; }
  const NamedParameters& parameters() const { return program_->state.parameters; }
  // "aten::linear at model.py:42" after a forward that threw; "" when the backward did.
  std::string where() const { return in_forward_ ? interpreter_->where() : ""; }
  bool in_forward() const { return in_forward_; }

 private:
  at::Tensor forward(step::Executor* executor, program::OpObserver* observer);

  const config::TrialRequest& request_;
  std::unique_ptr<device::Device> device_;
  c10::Device place_;  // of the tensors
  frontend::Loss loss_;
  std::unique_ptr<program::Program> program_;
  config::ProgramFacts facts_;
  frontend::Batch batch_;
  std::unique_ptr<program::Interpreter> interpreter_;
  std::vector<bool> written_;  // inputs that the program writes into
  program::ParameterSource* parameters_ = nullptr;
  std::function<void()> before_backward_;
  bool in_forward_ = false;
  bool surveyed_ = false;
};

}  // namespace memtune::trial
