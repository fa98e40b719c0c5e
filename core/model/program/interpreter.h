// Runs a Program op by op through boxed calls, under the caller's autograd and autocast state. Values die at their last
// use, so peak allocated memory is that of eager Python.
#pragma once

#include <c10/core/GradMode.h>

#include <memory>
#include <variant>

#include "core/base/error.h"
#include "core/model/ops/autocast.h"
#include "core/model/program/op_and_phase_parameter_residency_hooks.h"
#include "core/model/program/program.h"

namespace memtune::program {

// Observes every call of a registered operator, with its inputs and outputs. Exceptions propagate out of run().
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before(const Op& op, const Stack& inputs) = 0;
  virtual void after(const Op& op, const Stack& outputs) = 0;
};

// The model's own `raise`, with its message and line.
struct ModelRaisedError : Error {
  using Error::Error;
};

class Interpreter {
 public:
  explicit Interpreter(const Program& program);

  // Called around ops that read parameters, outside of the observer's calls. Null (default): all parameters are
  // resident.
  void set_parameters(OpAndPhaseParameterResidencyHooks* parameters) { parameters_ = parameters; }

  // `inputs` in the order of Program::body.inputs; an undefined tensor becomes None. No value is held after return or
  // exception. Throws what the ops throw, and UsageError for what cannot be run.
  c10::IValue run(std::vector<c10::IValue> inputs, OpObserver* observer = nullptr);

  // "aten::linear at model.py:42": the op that was running when run() threw.
  std::string where() const;

 private:
  void run_body(const ProgramOrControlFlowBody& body, std::vector<c10::IValue> inputs,
                std::vector<c10::IValue>& outputs);
  void run_op(const Op& op);
  void run_branch(const Op& op);
  void run_loop(const Op& op);
  void take_inputs(const Op& op);
  void call(const Op& op);
  void clear();

  const Program& program_;
  std::vector<c10::IValue> environment_;  // by slot; constants are filled in once
  Stack stack_;                           // of the running op
  OpObserver* observer_ = nullptr;
  OpAndPhaseParameterResidencyHooks* parameters_ = nullptr;
  const Op* running_ = nullptr;

  // Scopes that are entered and not yet left. Destroying one restores the previous state.
  using Entered = std::variant<std::unique_ptr<c10::AutoGradMode>, std::unique_ptr<ops::AutocastScope>>;
  std::vector<Entered> entered_;
};

}  // namespace memtune::program
