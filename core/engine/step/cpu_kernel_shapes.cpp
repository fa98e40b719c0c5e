#include "core/engine/step/cpu_kernel_shapes.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <vector>

namespace memtune::step {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::IValue;

// Kernels read numbers of any value; indices have to be valid.
Tensor on_cpu(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_meta()) return tensor;
  const Tensor copy =
      at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(at::kCPU).dtype(tensor.scalar_type()));
  return tensor.is_floating_point() || tensor.is_complex() ? copy : copy.zero_();
}

Tensor shape_of(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

// Applies `change` to the tensors of a value.
template <typename Change>
IValue changed(const IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    std::vector<Tensor> tensors;
    for (const Tensor& tensor : value.toTensorVector()) tensors.push_back(change(tensor));
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> tensors;
    for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector())
      tensors.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    return tensors;
  }
  if (value.isDevice() && value.toDevice().is_meta()) return c10::Device(at::kCPU);
  return value;
}

// What an operator writes into is an argument, which it may resize, and returns.
void shapes_of_cpu_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size();
  const std::vector<IValue> given(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  torch::jit::drop(*stack, count);
  torch::jit::Stack on_host;
  for (const IValue& argument : given) on_host.push_back(changed(argument, on_cpu));
  const std::vector<IValue> passed(on_host.begin(), on_host.end());
  op.callBoxed(&on_host);
  const auto is_written = [](const c10::Argument& argument) {
    return argument.alias_info() && argument.alias_info()->isWrite();
  };
  for (size_t i = 0; i < count; ++i)
    if (is_written(schema.arguments()[i]) && given[i].isTensor() &&
        given[i].toTensor().sizes() != passed[i].toTensor().sizes())
      given[i].toTensor().resize_(passed[i].toTensor().sizes());
  for (size_t i = 0; i < on_host.size(); ++i) {
    const auto same = std::ranges::find_if(passed, [&](const IValue& argument) {
      return argument.isTensor() && on_host[i].isTensor() && argument.toTensor().is_same(on_host[i].toTensor());
    });
    stack->push_back(same != passed.end() ? given[same - passed.begin()] : changed(on_host[i], shape_of));
  }
}

bool has_shapes(const c10::OperatorHandle& op) {
  return std::ranges::any_of(
      std::vector{DispatchKey::Meta, DispatchKey::CompositeExplicitAutograd,
                  DispatchKey::CompositeExplicitAutogradNonFunctional, DispatchKey::CompositeImplicitAutograd},
      [&](DispatchKey key) { return op.hasKernelForDispatchKey(key); });
}

bool depends_on_values(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
}

}  // namespace

void take_missing_shapes_from_cpu_kernels() {
  static torch::Library* library = nullptr;  // stays registered
  if (library != nullptr) return;
  library = new torch::Library(torch::Library::IMPL, "aten", DispatchKey::Meta, __FILE__, __LINE__);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || !op->hasKernelForDispatchKey(DispatchKey::CPU)) continue;
    if (has_shapes(*op) || depends_on_values(*op)) continue;
    const std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
    library->impl((name.name + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&shapes_of_cpu_kernel>());
  }
}

}  // namespace memtune::step
