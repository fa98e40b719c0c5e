// Writes a Program op by op, in the order of execution. Front ends write programs only through this class.
//
//   Emitter emit(program);
//   const Value x = emit.input("x");
//   const Value w = emit.parameter("up.weight", weight);
//   const Emitter::InRegion up(emit, "up", "Linear");
//   emit.answer(emit.op("aten::linear", "", {x, w}));
//
// Ops belong to the innermost region and carry the source line that was set last. The caller owns the program, which
// must outlive the emitter.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/model/program/program.h"

namespace memtune::frontend {

// A value of the program being written.
struct Value {
  program::Slot slot = -1;
};
using Values = std::vector<Value>;
using SlotMap = std::unordered_map<program::Slot, program::Slot>;
using ObjectPtr = c10::intrusive_ptr<c10::ivalue::Object>;

// An argument of an op: a value or a constant.
class ValueOrConstantOpArgument {
 public:
  // Conversions are implicit so that a front end can write op("aten::add", {x, y, 1}).
  // NOLINTBEGIN(google-explicit-constructor)
  ValueOrConstantOpArgument(Value value) : value_(value) {}
  template <typename T>
  requires std::is_constructible_v<c10::IValue, T> ValueOrConstantOpArgument(T constant)
      : constant_(std::move(constant)) {}
  // NOLINTEND(google-explicit-constructor)

 private:
  friend class ProgramEmitter;
  Value value_;
  c10::IValue constant_;
};

// An operator that the front end has looked up itself.
struct ResolvedOperator {
  std::string name;
  const c10::FunctionSchema* schema = nullptr;  // null: only its inputs and outputs are known
  std::function<void(program::Stack&)> run;
};

class ProgramEmitter {
 public:
  explicit ProgramEmitter(program::Program& program);

  Value input(const std::string& name, bool optional = false, bool of_model = true);
  void describe_input(model::InputTensorDescription description);  // the input that was added last
  Value constant(c10::IValue value);
  Value parameter(const std::string& name, const at::Tensor& tensor);  // tied if the tensor was added before
  Value buffer(const std::string& name, const at::Tensor& tensor);

  // An operator of the dispatcher with one output. Omitted arguments at the end get their defaults. Throws c10::Error
  // if there is no such operator, and Error for an omitted argument without a default.
  Value op(const char* name, const char* overload, std::vector<ValueOrConstantOpArgument> arguments) {
    return op(name, overload, std::move(arguments), 1)[0];
  }
  Values op(const char* name, const char* overload, std::vector<ValueOrConstantOpArgument> arguments, size_t outputs);
  Values call(const ResolvedOperator& callee, const Values& inputs, size_t outputs);

  Value list(const c10::TypePtr& type, const Values& elements);  // `type`: type of the list
  Value dict(const c10::TypePtr& type, const Values& keys_and_values);
  Value tuple(const Values& elements);
  Values unpack_list(Value list, size_t count);  // throws UsageError at run time for another length
  Values unpack_tuple(Value tuple, size_t count);
  Value tuple_element(Value tuple, int64_t index);

  Value attribute(const ObjectPtr& object, const std::string& name);
  Value attribute(Value object, const std::string& name);
  void set_attribute(const ObjectPtr& object, const std::string& name, Value value);
  void set_attribute(Value object, const std::string& name, Value value);
  Value create_object(const c10::TypePtr& type);
  Value is_instance(Value value, const std::vector<c10::TypePtr>& types);
  Value uninitialized();

  // In effect until leave(), which leaves the scope entered last.
  void enter_grad_mode(Value on);
  void enter_autocast(Value device, Value on, Value dtype, Value cached);
  void leave();

  // Each function writes the ops of its body and returns its results.
  Values branch(Value condition, const std::function<Values()>& then, const std::function<Values()>& otherwise);
  // `body` takes the index and the carried values. It returns the condition to continue and the carried values.
  Values loop(Value most, Value condition, const Values& carried, const std::function<Values(Values)>& body);

  // Passes every op of the program to `write`, including ops in bodies. Ops that `write` emits take its place, in its
  // region. An op that is not kept is removed.
  void rewrite(const std::function<void(program::Op)>& write);
  void keep(program::Op op) { body_->ops.push_back(std::move(op)); }
  Value new_value();                 // for the results of such an op
  Value keep_aside(program::Op op);  // keeps the op with a new value as its only output
  // Emits copies of ops whose results are new values. `slots` has the copy of each value and receives those of the
  // results; values that are not in it are shared. Regions of the copies are new, with `prefix` and a point before
  // their paths.
  void copy(const std::vector<program::Op>& ops, const std::string& prefix, SlotMap& slots);
  // Makes the last emitted op define `slot`, which other ops already read.
  void bind_result(program::Slot slot) { body_->ops.back().outputs = {slot}; }

  // For formats that name the module of each op. add_region() adds a region inside `outer`; set_region() sets the
  // region of the following ops. Region 0 is the model.
  int add_region(int outer, const std::string& path, const std::string& type);
  void set_region(int region) { region_ = region; }

  class InRegion {
   public:
    InRegion(ProgramEmitter& emitter, const std::string& path, const std::string& type);
    ~InRegion() { emitter_.region_ = outer_; }
    InRegion(const InRegion&) = delete;
    InRegion& operator=(const InRegion&) = delete;

   private:
    ProgramEmitter& emitter_;
    int outer_;
  };

  void at(std::string source) { source_ = std::move(source); }

  // Sets the model's output.
  void answer(Value value) { program_.answer = {value.slot, c10::TensorType::get(), {}}; }
  void answer(program::OutputTree answer) { program_.answer = std::move(answer); }

 private:
  program::Op start(program::InterpreterInstructionKind kind, const char* name, const Values& inputs) const;
  Values finish(program::Op op, size_t outputs);
  Value finish(program::Op op) { return finish(std::move(op), 1)[0]; }
  program::ProgramOrControlFlowBody body(const std::function<Values(Values)>& write, size_t inputs);
  void rewrite(program::ProgramOrControlFlowBody& body, const std::function<void(program::Op)>& write);
  program::Op copy(program::Op op, std::unordered_map<int, int>& regions, const std::string& prefix, SlotMap& slots);
  int copy_region(int region, std::unordered_map<int, int>& regions, const std::string& prefix);
  bool holds(const std::string& name, const at::Tensor& tensor) const;

  program::Program& program_;
  program::ProgramOrControlFlowBody* body_;
  int region_ = 0;
  std::string source_;
  std::unordered_map<const void*, std::string> names_;  // names of parameters, by tensor
};

}  // namespace memtune::frontend
