#include "core/model/frontend/program_emitter.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/model/program/op_schema.h"

namespace memtune::frontend {

using program::InterpreterInstructionKind;
using program::Op;
using program::ProgramOrControlFlowBody;
using program::Slot;

ProgramEmitter::ProgramEmitter(program::Program& program) : program_(program), body_(&program.body) {
  if (program.regions.empty()) program.regions.push_back({"", "", -1});
}

Value ProgramEmitter::new_value() {
  program_.constants.emplace_back();
  program_.is_constant.push_back(false);
  return {program_.slots++};
}

Value ProgramEmitter::input(const std::string& name, bool optional, bool of_model) {
  const Value value = new_value();
  program_.body.inputs.push_back(value.slot);
  program_.inputs.push_back({name, optional, of_model});
  return value;
}

void ProgramEmitter::describe_input(model::InputTensorDescription description) {
  program_.inputs.back().described = std::move(description);
}

Value ProgramEmitter::constant(c10::IValue constant) {
  const Value value = new_value();
  program_.constants[value.slot] = std::move(constant);
  program_.is_constant[value.slot] = true;
  return value;
}

Value ProgramEmitter::parameter(const std::string& name, const at::Tensor& tensor) {
  const auto known = names_.find(tensor.unsafeGetTensorImpl());
  if (known != names_.end() && holds(known->second, tensor)) {
    program_.state.ties.emplace_back(name, known->second);
  } else {
    program_.state.parameters.emplace_back(name, tensor);
    names_[tensor.unsafeGetTensorImpl()] = name;
  }
  return constant(tensor);
}

// A new tensor may reuse the address of a freed one, so the address alone is not enough.
bool ProgramEmitter::holds(const std::string& name, const at::Tensor& tensor) const {
  return std::ranges::any_of(program_.state.parameters, [&](const auto& parameter) {
    return parameter.first == name && parameter.second.is_same(tensor);
  });
}

Value ProgramEmitter::buffer(const std::string& name, const at::Tensor& tensor) {
  program_.state.buffers.emplace_back(name, tensor);
  return constant(tensor);
}

Op ProgramEmitter::start(InterpreterInstructionKind kind, const char* name, const Values& inputs) const {
  Op op;
  op.kind = kind;
  op.name = name;
  op.source = source_;
  op.region = region_;
  for (const Value value : inputs) op.inputs.push_back(value.slot);
  return op;
}

Values ProgramEmitter::finish(Op op, size_t outputs) {
  Values values;
  for (size_t i = 0; i < outputs; ++i) {
    values.push_back(new_value());
    op.outputs.push_back(values.back().slot);
  }
  if (program_.as_written) program_.as_written(program_, op);
  body_->ops.push_back(std::move(op));
  return values;
}

Values ProgramEmitter::op(const char* name, const char* overload, std::vector<ValueOrConstantOpArgument> arguments,
                          size_t outputs) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  Values inputs;
  for (ValueOrConstantOpArgument& argument : arguments)
    inputs.push_back(argument.value_.slot >= 0 ? argument.value_ : constant(std::move(argument.constant_)));
  const auto& known = handle.schema().arguments();
  for (size_t i = inputs.size(); i < known.size(); ++i) {
    if (!known[i].default_value()) throw Error(std::string(name) + ": argument '" + known[i].name() + "' is missing");
    inputs.push_back(constant(*known[i].default_value()));
  }
  const auto run = [handle](program::Stack& stack) { handle.callBoxed(stack); };
  return call({name, &handle.schema(), run}, inputs, outputs);
}

Values ProgramEmitter::call(const ResolvedOperator& callee, const Values& inputs, size_t outputs) {
  Op op = start(InterpreterInstructionKind::call, callee.name.c_str(), inputs);
  op.run = callee.run;
  if (callee.schema) {
    op.handle = c10::Dispatcher::singleton().findSchema(callee.schema->operator_name());
    program::describe(op, *callee.schema);
  }
  return finish(std::move(op), outputs);
}

Value ProgramEmitter::list(const c10::TypePtr& type, const Values& elements) {
  Op op = start(InterpreterInstructionKind::list, "prim::ListConstruct", elements);
  op.type = type;
  return finish(std::move(op));
}

Value ProgramEmitter::dict(const c10::TypePtr& type, const Values& keys_and_values) {
  Op op = start(InterpreterInstructionKind::dict, "prim::DictConstruct", keys_and_values);
  op.type = type;
  return finish(std::move(op));
}

Value ProgramEmitter::tuple(const Values& elements) {
  return finish(start(InterpreterInstructionKind::tuple, "prim::TupleConstruct", elements));
}

Values ProgramEmitter::unpack_list(Value list, size_t count) {
  return finish(start(InterpreterInstructionKind::list_unpack, "prim::ListUnpack", {list}), count);
}

Values ProgramEmitter::unpack_tuple(Value tuple, size_t count) {
  return finish(start(InterpreterInstructionKind::tuple_unpack, "prim::TupleUnpack", {tuple}), count);
}

Value ProgramEmitter::tuple_element(Value tuple, int64_t index) {
  Op op = start(InterpreterInstructionKind::tuple_index, "prim::TupleIndex", {tuple});
  op.index = index;
  return finish(std::move(op));
}

Value ProgramEmitter::attribute(const ObjectPtr& object, const std::string& name) {
  Op op = start(InterpreterInstructionKind::get_attribute, "prim::GetAttr", {});
  op.object = object;
  op.attribute = name;
  return finish(std::move(op));
}

Value ProgramEmitter::attribute(Value object, const std::string& name) {
  Op op = start(InterpreterInstructionKind::get_attribute, "prim::GetAttr", {object});
  op.attribute = name;
  return finish(std::move(op));
}

void ProgramEmitter::set_attribute(const ObjectPtr& object, const std::string& name, Value value) {
  Op op = start(InterpreterInstructionKind::set_attribute, "prim::SetAttr", {value});
  op.object = object;
  op.attribute = name;
  finish(std::move(op), 0);
}

void ProgramEmitter::set_attribute(Value object, const std::string& name, Value value) {
  Op op = start(InterpreterInstructionKind::set_attribute, "prim::SetAttr", {object, value});
  op.attribute = name;
  finish(std::move(op), 0);
}

Value ProgramEmitter::create_object(const c10::TypePtr& type) {
  Op op = start(InterpreterInstructionKind::create_object, "prim::CreateObject", {});
  op.type = type;
  return finish(std::move(op));
}

Value ProgramEmitter::is_instance(Value value, const std::vector<c10::TypePtr>& types) {
  Op op = start(InterpreterInstructionKind::is_instance, "prim::isinstance", {value});
  op.types = types;
  return finish(std::move(op));
}

Value ProgramEmitter::uninitialized() {
  return finish(start(InterpreterInstructionKind::uninitialized, "prim::Uninitialized", {}));
}

void ProgramEmitter::enter_grad_mode(Value on) {
  finish(start(InterpreterInstructionKind::enter_grad_mode, "prim::Enter", {on}), 0);
}

void ProgramEmitter::enter_autocast(Value device, Value on, Value dtype, Value cached) {
  finish(start(InterpreterInstructionKind::enter_autocast, "prim::Enter", {device, on, dtype, cached}), 0);
}

void ProgramEmitter::leave() { finish(start(InterpreterInstructionKind::leave, "prim::Exit", {}), 0); }

ProgramOrControlFlowBody ProgramEmitter::body(const std::function<Values(Values)>& write, size_t inputs) {
  ProgramOrControlFlowBody inner;
  ProgramOrControlFlowBody* const outer = std::exchange(body_, &inner);
  Values taken;
  for (size_t i = 0; i < inputs; ++i) {
    taken.push_back(new_value());
    inner.inputs.push_back(taken.back().slot);
  }
  for (const Value value : write(taken)) inner.outputs.push_back(value.slot);
  body_ = outer;
  return inner;
}

Values ProgramEmitter::branch(Value condition, const std::function<Values()>& then,
                              const std::function<Values()>& otherwise) {
  Op op = start(InterpreterInstructionKind::branch, "prim::If", {condition});
  for (const auto* write : {&then, &otherwise}) op.bodies.push_back(body([&](const Values&) { return (*write)(); }, 0));
  const size_t outputs = op.bodies[0].outputs.size();
  return finish(std::move(op), outputs);
}

Values ProgramEmitter::loop(Value most, Value condition, const Values& carried,
                            const std::function<Values(Values)>& write) {
  Values inputs = {most, condition};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  Op op = start(InterpreterInstructionKind::loop, "prim::Loop", inputs);
  op.bodies.push_back(body(write, carried.size() + 1));
  return finish(std::move(op), carried.size());
}

void ProgramEmitter::rewrite(const std::function<void(Op)>& write) {
  const int region = region_;
  const std::string source = source_;
  rewrite(program_.body, write);
  region_ = region;
  source_ = source;
}

void ProgramEmitter::rewrite(ProgramOrControlFlowBody& body, const std::function<void(Op)>& write) {
  ProgramOrControlFlowBody* const outer = std::exchange(body_, &body);
  std::vector<Op> ops = std::exchange(body.ops, {});
  for (Op& op : ops) {
    for (ProgramOrControlFlowBody& inner : op.bodies) rewrite(inner, write);
    region_ = op.region;
    source_ = op.source;
    write(std::move(op));
  }
  body_ = outer;
}

Value ProgramEmitter::keep_aside(Op op) {
  const Value value = new_value();
  op.outputs = {value.slot};
  keep(std::move(op));
  return value;
}

void ProgramEmitter::copy(const std::vector<Op>& ops, const std::string& prefix, SlotMap& slots) {
  std::unordered_map<int, int> regions;
  for (const Op& op : ops) body_->ops.push_back(copy(op, regions, prefix, slots));
}

Op ProgramEmitter::copy(Op op, std::unordered_map<int, int>& regions, const std::string& prefix, SlotMap& slots) {
  const auto read = [&](Slot& slot) {
    if (const auto found = slots.find(slot); found != slots.end()) slot = found->second;
  };
  const auto define = [&](Slot& slot) { slot = slots[slot] = new_value().slot; };
  op.region = copy_region(op.region, regions, prefix);
  std::ranges::for_each(op.inputs, read);
  for (ProgramOrControlFlowBody& body : op.bodies) {
    std::ranges::for_each(body.inputs, define);
    for (Op& inner : body.ops) inner = copy(std::move(inner), regions, prefix, slots);
    std::ranges::for_each(body.outputs, read);
  }
  std::ranges::for_each(op.outputs, define);
  return op;
}

int ProgramEmitter::copy_region(int region, std::unordered_map<int, int>& regions, const std::string& prefix) {
  if (region <= 0) return region;
  if (const auto found = regions.find(region); found != regions.end()) return found->second;
  const program::ModuleCallTreeNode original = program_.regions[region];
  const int outer = copy_region(original.parent, regions, prefix);
  return regions[region] = add_region(outer, prefix + "." + original.path, original.type);
}

int ProgramEmitter::add_region(int outer, const std::string& path, const std::string& type) {
  program_.regions.push_back({path, type, outer});
  return static_cast<int>(program_.regions.size()) - 1;
}

ProgramEmitter::InRegion::InRegion(ProgramEmitter& emitter, const std::string& path, const std::string& type)
    : emitter_(emitter), outer_(emitter.region_) {
  emitter.region_ = emitter.add_region(outer_, path, type);
}

}  // namespace memtune::frontend
