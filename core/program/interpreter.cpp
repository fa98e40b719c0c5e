#include "core/program/interpreter.h"

#include <ATen/autocast_mode.h>

#include "core/base/error.h"

namespace memtune::program {

using c10::IValue;

Interpreter::Interpreter(const Program& program) : program_(program), environment_(program.constants) {}

IValue Interpreter::run(std::vector<IValue> inputs, OpObserver* observer) {
  struct Clear {
    Interpreter& interpreter;
    ~Clear() { interpreter.clear(); }
  } clear_at_end{*this};
  c10::AutoGradMode grad_mode(c10::GradMode::is_enabled());  // a no_grad region that throws does not leave it off
  observer_ = observer;
  std::vector<IValue> outputs;
  for (IValue& input : inputs)
    if (input.isTensor() && !input.toTensor().defined()) input = IValue();
  run_body(program_.body, std::move(inputs), outputs);
  return std::move(outputs.at(0));
}

std::string Interpreter::where() const {
  if (!running_) return "";
  std::string source = source_of(running_->node);
  return running_->name + (source.empty() ? "" : " at " + source);
}

void Interpreter::clear() {
  for (size_t slot = 0; slot < environment_.size(); ++slot)
    if (!program_.is_constant[slot]) environment_[slot] = IValue();
  stack_.clear();
  while (!contexts_.empty()) exit();
}

void Interpreter::run_body(const Body& body, std::vector<IValue> inputs, std::vector<IValue>& outputs) {
  for (size_t i = 0; i < body.inputs.size(); ++i) environment_[body.inputs[i]] = std::move(inputs.at(i));
  for (Slot slot : body.dead_at_entry) environment_[slot] = IValue();
  for (const Op& op : body.ops) run_op(op);
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    IValue& value = environment_[body.outputs[i]];
    outputs.push_back(body.output_last_use[i] ? std::move(value) : value);
  }
}

// Last uses are moved, so that the op (and what it calls) holds the only reference.
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
  if (op.kind == OpKind::branch) {
    run_branch(op);
  } else if (op.kind == OpKind::loop) {
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
  const Body& body = op.bodies[stack_.back().toBool() ? 0 : 1];
  stack_.clear();
  std::vector<IValue> outputs;
  run_body(body, {}, outputs);
  for (size_t i = 0; i < op.outputs.size(); ++i) environment_[op.outputs[i]] = std::move(outputs[i]);
}

// inputs: most iterations, condition, carried values; the body takes (index, carried) and gives (condition, carried).
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

IValue make_list(const Op& op, const torch::jit::Stack& elements) {
  c10::impl::GenericList list(op.node->output()->type()->expectRef<c10::ListType>().getElementType());
  for (const IValue& element : elements) list.push_back(element);
  return list;
}

IValue make_dict(const Op& op, const torch::jit::Stack& elements) {
  const auto& type = op.node->output()->type()->expectRef<c10::DictType>();
  c10::impl::GenericDict dict(type.getKeyType(), type.getValueType());
  for (size_t i = 0; i + 1 < elements.size(); i += 2) dict.insert_or_assign(elements[i], elements[i + 1]);
  return dict;
}

IValue make_tuple(const Op&, torch::jit::Stack& elements) {
  return c10::ivalue::Tuple::create(std::vector<IValue>(elements.begin(), elements.end()));
}

IValue make_object(const Op& op) {
  auto type = op.node->output()->type()->expect<c10::ClassType>();
  return c10::ivalue::Object::create({type->compilation_unit(), type}, type->numAttributes());
}

bool is_instance(const Op& op, const IValue& value) {
  for (const auto& type : op.node->tys(c10::attr::types))
    if (value.type()->isSubtypeOf(*type)) return true;
  return false;
}

void unpack_list(const Op& op, torch::jit::Stack& stack) {
  auto list = stack.back().toList();
  stack.pop_back();
  if (list.size() != op.outputs.size())
    throw UsageError("cannot unpack a list of " + std::to_string(list.size()) + " into " +
                     std::to_string(op.outputs.size()) + " values at " + source_of(op.node));
  for (size_t i = 0; i < list.size(); ++i) stack.push_back(list.get(i));
}

void unpack_tuple(torch::jit::Stack& stack) {
  auto elements = stack.back().toTuple()->elements().vec();
  stack.pop_back();
  for (auto& element : elements) stack.push_back(std::move(element));
}

IValue tuple_element(const Op& op, const IValue& value) {
  const auto& elements = value.toTupleRef().elements();
  int64_t i = op.index < 0 ? op.index + static_cast<int64_t>(elements.size()) : op.index;
  return elements.at(i);
}

}  // namespace

void Interpreter::call(const Op& op) {
  auto answer = [&](IValue value) {
    stack_.clear();
    stack_.push_back(std::move(value));
  };
  switch (op.kind) {
    case OpKind::get_attribute: {
      const std::string& name = op.node->s(c10::attr::name);
      return answer(op.object ? op.object->getAttr(name) : stack_[0].toObject()->getAttr(name));
    }
    case OpKind::set_attribute: {
      IValue value = stack_.back();
      (op.object ? op.object : stack_[0].toObject())->setAttr(op.node->s(c10::attr::name), std::move(value));
      return stack_.clear();
    }
    case OpKind::list: return answer(make_list(op, stack_));
    case OpKind::dict: return answer(make_dict(op, stack_));
    case OpKind::tuple: return answer(make_tuple(op, stack_));
    case OpKind::list_unpack: return unpack_list(op, stack_);
    case OpKind::tuple_unpack: return unpack_tuple(stack_);
    case OpKind::tuple_index: return answer(tuple_element(op, stack_[0]));
    case OpKind::create_object: return answer(make_object(op));
    case OpKind::is_instance: return answer(is_instance(op, stack_[0]));
    case OpKind::uninitialized: return answer(IValue());
    case OpKind::enter: return enter();
    case OpKind::exit: exit(); return answer(IValue());
    default: break;
  }
  if (observer_) observer_->before(op, stack_);
  if (op.vararg) stack_.emplace_back(static_cast<int64_t>(stack_.size()));
  op.operation(stack_);
  if (observer_) observer_->after(op, stack_);
}

// Autocast regions only: what other context managers do are ops of their own. The device in the script is the author's
// choice and stays.
void Interpreter::enter() {
  const auto& object = stack_[0].toObjectRef();
  Context context;
  context.device = c10::Device(object.getAttr("device").toStringRef()).type();
  context.enabled = at::autocast::is_autocast_enabled(context.device);
  context.dtype = at::autocast::get_autocast_dtype(context.device);
  at::autocast::set_autocast_enabled(context.device, object.getAttr("_enabled").toBool());
  at::autocast::set_autocast_dtype(context.device, object.getAttr("fast_dtype").toScalarType());
  at::autocast::increment_nesting();
  contexts_.push_back(context);
}

void Interpreter::exit() {
  Context context = contexts_.back();
  contexts_.pop_back();
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(context.device, context.enabled);
  at::autocast::set_autocast_dtype(context.device, context.dtype);
}

}  // namespace memtune::program
