// The only writer of Programs: what every front end calls, op by op in the order in which they run.
//
//   Emitter emit(program);
//   const Value x = emit.input("x");
//   const Value w = emit.parameter("up.weight", weight);
//   const Emitter::InRegion up(emit, "up", "Linear");
//   emit.answer(emit.op("aten::linear", "", {x, w}));
//
// Ops belong to the innermost region and carry the source line that was told last. The program is the caller's and must
// outlive the emitter.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/program/program.h"

namespace memtune::frontend {

// A value of the program that is being written.
struct Value {
  program::Slot slot = -1;
};
using Values = std::vector<Value>;
using ObjectPtr = c10::intrusive_ptr<c10::ivalue::Object>;

// An argument: a value, or what becomes a constant.
class Argument {
 public:
  // Both convert on purpose: a front end writes op("aten::add", {x, y, 1}).
  // NOLINTBEGIN(google-explicit-constructor)
  Argument(Value value) : value_(value) {}
  template <typename T>
  requires std::is_constructible_v<c10::IValue, T> Argument(T constant) : constant_(std::move(constant)) {}
  // NOLINTEND(google-explicit-constructor)

 private:
  friend class Emitter;
  Value value_;
  c10::IValue constant_;
};

// An operator that a front end has found itself.
struct Operator {
  std::string name;
  const c10::FunctionSchema* schema = nullptr;  // null: it reads its inputs, makes its outputs, and no more is known
  std::function<void(program::Stack&)> run;
};

class Emitter {
 public:
  explicit Emitter(program::Program& program);

  Value input(const std::string& name, bool optional = false, bool of_model = true);
  Value constant(c10::IValue value);
  Value parameter(const std::string& name, const at::Tensor& tensor);  // one that is there already is tied to it
  Value buffer(const std::string& name, const at::Tensor& tensor);

  // An operator of the dispatcher with one result. Arguments left out at the end keep their defaults. Error when there
  // is no such operator.
  Value op(const char* name, const char* overload, std::vector<Argument> arguments) {
    return op(name, overload, std::move(arguments), 1)[0];
  }
  Values op(const char* name, const char* overload, std::vector<Argument> arguments, size_t outputs);
  Values call(const Operator& callee, const Values& inputs, size_t outputs);

  Value list(const c10::TypePtr& type, const Values& elements);  // the type of the list
  Value dict(const c10::TypePtr& type, const Values& keys_and_values);
  Value tuple(const Values& elements);
  Values unpack_list(Value list, size_t count);  // UsageError at run time when it has not so many
  Values unpack_tuple(Value tuple, size_t count);
  Value tuple_element(Value tuple, int64_t index);

  Value attribute(const ObjectPtr& object, const std::string& name);
  Value attribute(Value object, const std::string& name);
  void set_attribute(const ObjectPtr& object, const std::string& name, Value value);
  void set_attribute(Value object, const std::string& name, Value value);
  Value create_object(const c10::TypePtr& type);
  Value is_instance(Value value, const std::vector<c10::TypePtr>& types);
  Value uninitialized();

  // From here to leave(), which ends what was entered last.
  void enter_grad_mode(Value on);
  void enter_autocast(Value device, Value on, Value dtype, Value cached);
  void leave();

  // Each body writes its ops and gives its results.
  Values branch(Value condition, const std::function<Values()>& then, const std::function<Values()>& otherwise);
  // The body takes the index and what is carried, and gives whether to go on and what is carried.
  Values loop(Value most, Value condition, const Values& carried, const std::function<Values(Values)>& body);

  // Hands out every op that is there, those of bodies too, each where it stands: what `write` emits stands there then,
  // in the op's region. One that is not kept is gone.
  void rewrite(const std::function<void(program::Op)>& write);
  void keep(program::Op op) { body_->ops.push_back(std::move(op)); }
  Value keep_aside(program::Op op);  // its one result is a new value
  // The result of the op that was emitted last is what others know by this number.
  void stand_for(program::Slot slot) { body_->ops.back().outputs = {slot}; }

  // For forms that tell of each op where it is: a region inside of another, and that ops belong to it from now on. The
  // model itself is region 0.
  int add_region(int outer, const std::string& path, const std::string& type);
  void go_to(int region) { region_ = region; }

  class InRegion {
   public:
    InRegion(Emitter& emitter, const std::string& path, const std::string& type);
    ~InRegion() { emitter_.region_ = outer_; }
    InRegion(const InRegion&) = delete;
    InRegion& operator=(const InRegion&) = delete;

   private:
    Emitter& emitter_;
    int outer_;
  };

  void at(std::string source) { source_ = std::move(source); }

  // What the model answers with.
  void answer(Value value) { program_.answer = {value.slot, c10::TensorType::get(), {}}; }
  void answer(program::Answer answer) { program_.answer = std::move(answer); }

 private:
  program::Op start(program::OpKind kind, const char* name, const Values& inputs) const;
  Values finish(program::Op op, size_t outputs);
  Value finish(program::Op op) { return finish(std::move(op), 1)[0]; }
  program::Body body(const std::function<Values(Values)>& write, size_t inputs);
  void rewrite(program::Body& body, const std::function<void(program::Op)>& write);
  Value new_value();
  bool holds(const std::string& name, const at::Tensor& tensor) const;

  program::Program& program_;
  program::Body* body_;
  int region_ = 0;
  std::string source_;
  std::unordered_map<const void*, std::string> names_;  // of parameters, by tensor
};

}  // namespace memtune::frontend
