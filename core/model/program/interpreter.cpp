#include "core/model/program/interpreter.h"

#include <algorithm>

namespace memtune::program {

using c10::IValue;

Interpreter::Interpreter(const Program& program) : program_(program), environment_(program.constants) {}

IValue Interpreter::run(std::vector<IValue> inputs, OpObserver* observer) {
  struct Clear {
    Interpreter& interpreter;
    ~Clear() { interpreter.clear(); }
  } clear_at_end{*this};
  c10::AutoGradMode grad_mode(c10::GradMode::is_enabled());  // restores grad mode if a no_grad region throws
  observer_ = observer;
  std::vector<IValue> outputs;
  for (IValue& input : inputs)
    if (input.isTensor() && !input.toTensor().defined()) input = IValue();
  run_body(program_.body, std::move(inputs), outputs);
  return std::move(outputs.at(0));
}

std::string Interpreter::where() const {
  if (!running_) return "";
  return running_->name + (running_->source.empty() ? "" : " at " + running_->source);
}

void Interpreter::clear() {
  for (size_t slot = 0; slot < environment_.size(); ++slot)
    if (!program_.is_constant[slot]) environment_[slot] = IValue();
  stack_.clear();
  while (!entered_.empty()) entered_.pop_back();  // last in, first out
}

void Interpreter::run_body(const ProgramOrControlFlowBody& body, std::vector<IValue> inputs,
                           std::vector<IValue>& outputs) {
  for (size_t i = 0; i < body.inputs.size(); ++i) environment_[body.inputs[i]] = std::move(inputs.at(i));
  for (Slot slot : body.dead_at_entry) environment_[slot] = IValue();
  for (const Op& op : body.ops) run_op(op);
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    IValue& value = environment_[body.outputs[i]];
    outputs.push_back(body.output_last_use[i] ? std::move(value) : value);
  }
}

// The last use moves the value, so that the op (and what it calls) holds the only reference.
void Interpreter::take_inputs(const Op& op) {
  stack_.clear();
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    IValue& value = environment_[op.inputs[i]];
    if (op.last_use[i])
      stack_.push_back(std::move(value));
    else
      stack_.push_back(value);
  }
}

void Interpreter::run_op(const Op& op) {
  running_ = &op;
  if (op.kind == InterpreterInstructionKind::branch) {
    run_branch(op);
  } else if (op.kind == InterpreterInstructionKind::loop) {
    run_loop(op);
  } else {
    take_inputs(op);
    call(op);
    for (size_t i = op.outputs.size(); i-- > 0;) {
      environment_[op.outputs[i]] = std::move(stack_.back());
      stack_.pop_back();
    }
    stack_.clear();
  }
  for (Slot slot : op.dead) environment_[slot] = IValue();
}

void Interpreter::run_branch(const Op& op) {
  take_inputs(op);
  const ProgramOrControlFlowBody& body = op.bodies[stack_.back().toBool() ? 0 : 1];
  stack_.clear();
  std::vector<IValue> outputs;
  run_body(body, {}, outputs);
  for (size_t i = 0; i < op.outputs.size(); ++i) environment_[op.outputs[i]] = std::move(outputs[i]);
}

// inputs: maximum iterations, condition, carried values. The body takes (index, carried) and returns (condition,
// carried).
void Interpreter::run_loop(const Op& op) {
  take_inputs(op);
  int64_t most = stack_[0].toInt();
  bool go_on = stack_[1].toBool();
  std::vector<IValue> carried(std::make_move_iterator(stack_.begin() + 2), std::make_move_iterator(stack_.end()));
  stack_.clear();
  for (int64_t i = 0; go_on && i < most; ++i) {
    std::vector<IValue> inputs = {i};
    std::move(carried.begin(), carried.end(), std::back_inserter(inputs));
    std::vector<IValue> outputs;
    run_body(op.bodies[0], std::move(inputs), outputs);
    go_on = outputs[0].toBool();
    carried.assign(std::make_move_iterator(outputs.begin() + 1), std::make_move_iterator(outputs.end()));
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) environment_[op.outputs[i]] = std::move(carried[i]);
}

namespace {

IValue make_list(const Op& op, const Stack& elements) {
  c10::impl::GenericList list(op.type->expectRef<c10::ListType>().getElementType());
  for (const IValue& element : elements) list.push_back(element);
  return list;
}

IValue make_dict(const Op& op, const Stack& elements) {
  const auto& type = op.type->expectRef<c10::DictType>();
  c10::impl::GenericDict dict(type.getKeyType(), type.getValueType());
  for (size_t i = 0; i + 1 < elements.size(); i += 2) dict.insert_or_assign(elements[i], elements[i + 1]);
  return dict;
}

IValue make_object(const Op& op) {
  auto type = op.type->expect<c10::ClassType>();
  return c10::ivalue::Object::create({type->compilation_unit(), type}, type->numAttributes());
}

bool is_instance(const Op& op, const IValue& value) {
  return std::any_of(op.types.begin(), op.types.end(),
                     [&](const c10::TypePtr& type) { return value.type()->isSubtypeOf(*type); });
}

void unpack_list(const Op& op, Stack& stack) {
  auto list = stack.back().toList();
  stack.pop_back();
  if (list.size() != op.outputs.size())
    throw UsageError("cannot unpack a list of " + std::to_string(list.size()) + " into " +
                     std::to_string(op.outputs.size()) + " values at " + op.source);
  for (size_t i = 0; i < list.size(); ++i) stack.push_back(list.get(i));
}

void unpack_tuple(Stack& stack) {
  auto elements = stack.back().toTuple()->elements().vec();
  stack.pop_back();
  for (auto& element : elements) stack.push_back(std::move(element));
}

IValue tuple_element(const Op& op, const IValue& value) {
  const auto& elements = value.toTupleRef().elements();
  int64_t i = op.index < 0 ? op.index + static_cast<int64_t>(elements.size()) : op.index;
  return elements.at(i);
}

// inputs: device, enabled, dtype, whether casts are cached. The device is the one that the model's author wrote.
std::unique_ptr<ops::AutocastScope> enter_autocast(const Stack& inputs) {
  const ops::AutocastState state{inputs[1].toBool(), inputs[2].toScalarType(), inputs[3].toBool()};
  return std::make_unique<ops::AutocastScope>(c10::Device(inputs[0].toStringRef()).type(), state);
}

}  // namespace

void Interpreter::call(const Op& op) {
  auto answer = [&](IValue value) {
    stack_.clear();
    stack_.push_back(std::move(value));
  };
  switch (op.kind) {
    case InterpreterInstructionKind::get_attribute:
      return answer((op.object ? op.object : stack_[0].toObject())->getAttr(op.attribute));
    case InterpreterInstructionKind::set_attribute: {
      IValue value = stack_.back();
      (op.object ? op.object : stack_[0].toObject())->setAttr(op.attribute, std::move(value));
      return stack_.clear();
    }
    case InterpreterInstructionKind::list: return answer(make_list(op, stack_));
    case InterpreterInstructionKind::dict: return answer(make_dict(op, stack_));
    case InterpreterInstructionKind::tuple: return answer(c10::ivalue::Tuple::create(stack_));
    case InterpreterInstructionKind::list_unpack: return unpack_list(op, stack_);
    case InterpreterInstructionKind::tuple_unpack: return unpack_tuple(stack_);
    case InterpreterInstructionKind::tuple_index: return answer(tuple_element(op, stack_[0]));
    case InterpreterInstructionKind::create_object: return answer(make_object(op));
    case InterpreterInstructionKind::is_instance: return answer(is_instance(op, stack_[0]));
    case InterpreterInstructionKind::uninitialized: return answer(IValue());
    case InterpreterInstructionKind::enter_grad_mode:
      entered_.emplace_back(std::make_unique<c10::AutoGradMode>(stack_[0].toBool()));
      return stack_.clear();
    case InterpreterInstructionKind::enter_autocast:
      entered_.emplace_back(enter_autocast(stack_));
      return stack_.clear();
    case InterpreterInstructionKind::leave: return entered_.pop_back();
    default: break;
  }
  if (parameters_) parameters_->before(op, stack_);
  if (observer_) observer_->before(op, stack_);
  if (op.vararg) stack_.emplace_back(static_cast<int64_t>(stack_.size()));
  op.run(stack_);
  if (parameters_) parameters_->after(op, stack_);
  if (observer_) observer_->after(op, stack_);
}

}  // namespace memtune::program
