#include "core/engine/checkpoint/op_recorder.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

namespace memtune::checkpoint {
namespace {

using c10::IValue;
using Form = RecordedOpArgument::Form;
using program::Stack;

// Checking for lists of numbers is cheaper than asking for the list's type.
bool is_optional_tensor_list(const IValue& value) {
  return value.isList() && !value.isIntList() && !value.isBoolList() && !value.isDoubleList() &&
         value.type()->isSubtypeOf(*c10::ListType::ofOptionalTensors());
}

Form form_of(const IValue& value) {
  if (value.isTensor()) return Form::tensor;
  if (value.isTensorList()) return Form::list;
  return is_optional_tensor_list(value) ? Form::optional_list : Form::plain;
}

// Copies lists and dictionaries, because the caller may change them after the op.
IValue as_it_is(const IValue& value) {
  if (value.isList()) return value.toList().copy();
  if (value.isGenericDict()) return value.toGenericDict().copy();
  return value;
}

void add_input(RecordedOp& instance, const at::Tensor& tensor, ConsumerHandleOf use) {
  RecordedOpInput& input = instance.inputs.emplace_back();
  if (!tensor.defined()) return;
  input.requires_grad = tensor.requires_grad();
  input.use = use(tensor);
  if (input.use)
    input.geometry = autograd::ViewGeometry(tensor);
  else
    input.direct = tensor.is_leaf() ? tensor : tensor.detach().requires_grad_(input.requires_grad);
}

void add_argument(RecordedOp& instance, const IValue& value, ConsumerHandleOf use) {
  RecordedOpArgument& argument = instance.arguments.emplace_back();
  argument.form = form_of(value);
  const size_t before = instance.inputs.size();
  if (argument.form == Form::plain) {
    argument.value = as_it_is(value);
  } else if (argument.form == Form::tensor) {
    add_input(instance, value.toTensor(), use);
  } else {
    for (const IValue& element : value.toListRef())
      add_input(instance, element.isNone() ? at::Tensor() : element.toTensor(), use);
  }
  argument.tensors = static_cast<int>(instance.inputs.size() - before);
}

const program::Op& cast_op() {
  static const program::Op cast = [] {
    program::Op op;
    op.name = "aten::to";
    op.run = [](Stack& stack) {
      const at::ScalarType dtype = stack.at(1).toScalarType();
      at::Tensor tensor = stack.at(0).toTensor().to(dtype);
      stack.clear();
      stack.emplace_back(std::move(tensor));
    };
    return op;
  }();
  return cast;
}

// The generator among the op's arguments, else the device's default generator. The meta device has none.
at::Generator generator_of(const Stack& inputs, c10::Device device) {
  for (const IValue& value : inputs)
    if (value.isGenerator()) return value.toGenerator();
  return device.is_meta() ? at::Generator() : at::globalContext().defaultGenerator(device);
}

}  // namespace

RecordedOpPtr OpRecorder::begin(const program::Op& op, int block) const {
  auto instance = std::make_shared<RecordedOp>(engine_);
  instance->op = &op;
  instance->block = block;
  instance->grad_mode = at::GradMode::is_enabled();
  return instance;
}

// Reading the state is cheap: the generator's state is copied only for ops that draw random numbers.
RecordedOpPtr OpRecorder::record(const program::Op& op, const Stack& inputs, int block, ConsumerHandleOf use) const {
  RecordedOpPtr instance = begin(op, block);
  instance->autocast = ops::AutocastState::now(device_.type());
  if (op.random) {
    instance->generator = generator_of(inputs, device_);
    if (instance->generator.defined()) instance->generator_state = instance->generator.get_state();
  }
  for (const IValue& value : inputs) add_argument(*instance, value, use);
  return instance;
}

RecordedOpPtr OpRecorder::record_cast(const at::Tensor& source, at::ScalarType to, int block,
                                      ConsumerHandleOf use) const {
  RecordedOpPtr instance = begin(cast_op(), block);
  add_argument(*instance, source, use);
  add_argument(*instance, to, use);
  return instance;
}

}  // namespace memtune::checkpoint
