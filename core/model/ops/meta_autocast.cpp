#include "core/model/ops/meta_autocast.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/text.h"

namespace memtune::ops {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::AutocastHPU;  // of a device that this process does not have

struct ThreadState {
  AutocastState autocast;
  std::unordered_map<const c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> casts;  // parameter and its copy
};
thread_local ThreadState state;

bool can_be_cast(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_meta() && tensor.is_floating_point() && tensor.scalar_type() != at::kDouble;
}

at::Tensor cast(const at::Tensor& tensor, at::ScalarType type) {
  if (!can_be_cast(tensor) || tensor.scalar_type() == type) return tensor;
  const bool keeps = state.autocast.cached && type == state.autocast.dtype && tensor.scalar_type() == at::kFloat &&
                     tensor.requires_grad() && tensor.is_leaf() && !tensor.is_view();
  if (!keeps) return tensor.to(type);
  std::pair<at::Tensor, at::Tensor>& known = state.casts[tensor.unsafeGetTensorImpl()];
  if (!known.second.defined()) known = {tensor, tensor.to(type)};
  return known.second;
}

template <class Function>
void for_each_argument(const c10::OperatorHandle& op, torch::jit::Stack& stack, Function function) {
  const size_t count = op.schema().arguments().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) function(stack[i]);
}

void cast_argument(c10::IValue& argument, at::ScalarType type) {
  if (argument.isTensor()) argument = cast(argument.toTensor(), type);
  if (!argument.isTensorList()) return;
  c10::List<at::Tensor> list;
  for (const at::Tensor& each : argument.toTensorVector()) list.push_back(cast(each, type));
  argument = list;
}

at::ScalarType lower_precision(const c10::OperatorHandle&, torch::jit::Stack&) { return state.autocast.dtype; }

at::ScalarType full_precision(const c10::OperatorHandle&, torch::jit::Stack&) { return at::kFloat; }

at::ScalarType widest(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  at::ScalarType type = state.autocast.dtype;
  const auto note = [&](const at::Tensor& tensor) {
    if (can_be_cast(tensor) && tensor.scalar_type() == at::kFloat) type = at::kFloat;
  };
  for_each_argument(op, stack, [&](const c10::IValue& argument) {
    if (argument.isTensor()) note(argument.toTensor());
    if (argument.isTensorList())
      for (const at::Tensor& each : argument.toTensorVector()) note(each);
  });
  return type;
}

template <at::ScalarType (*kType)(const c10::OperatorHandle&, torch::jit::Stack&)>
void call_with_casts(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard once(kKey);
  const at::ScalarType type = kType(op, *stack);
  for_each_argument(op, *stack, [type](c10::IValue& argument) { cast_argument(argument, type); });
  op.callBoxed(*stack);
}

// Operators whose `dtype` argument makes the result float32, unless the caller has set it.
void call_with_float_result(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard once(kKey);
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  if (stack->at(first).isTensor() && can_be_cast(stack->at(first).toTensor()))
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].name() == "dtype" && stack->at(first + i).isNone()) stack->at(first + i) = at::kFloat;
  op.callBoxed(*stack);
}

// "conv_transpose2d, input" -> "conv_transpose2d.input"
std::string name_of(const std::string& listed) {
  const std::vector<std::string> parts = split(listed, ',');
  return parts.size() < 2 ? listed : parts[0] + "." + trim(parts[1]);
}

void register_casts() {
  using Kernel = torch::CppFunction;
  static torch::Library *library = nullptr, *others = nullptr;  // stay registered
  if (library != nullptr) return;
  others = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  others->fallback(Kernel::makeFallthrough());
  library = new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
#define MEMTUNE_LOWER(...) \
  library->impl(name_of(#__VA_ARGS__).c_str(), Kernel::makeFromBoxedFunction<&call_with_casts<lower_precision>>());
#define MEMTUNE_FULL(...) \
  library->impl(name_of(#__VA_ARGS__).c_str(), Kernel::makeFromBoxedFunction<&call_with_casts<full_precision>>());
#define MEMTUNE_WIDEST(...) \
  library->impl(name_of(#__VA_ARGS__).c_str(), Kernel::makeFromBoxedFunction<&call_with_casts<widest>>());
#define MEMTUNE_RESULT(...) \
  library->impl(name_of(#__VA_ARGS__).c_str(), Kernel::makeFromBoxedFunction<&call_with_float_result>());
  AT_FORALL_LOWER_PRECISION_FP(MEMTUNE_LOWER)
  AT_FORALL_FP32(MEMTUNE_FULL)
  AT_FORALL_PROMOTE(MEMTUNE_WIDEST)
  AT_FORALL_FP32_SET_OPT_DTYPE(MEMTUNE_RESULT)
#undef MEMTUNE_LOWER
#undef MEMTUNE_FULL
#undef MEMTUNE_WIDEST
#undef MEMTUNE_RESULT
}

}  // namespace

AutocastState meta_autocast() { return state.autocast; }

void set_meta_autocast(const AutocastState& autocast) {
  if (autocast.enabled) register_casts();
  state.autocast = autocast;
  c10::impl::tls_set_dispatch_key_excluded(kKey, !autocast.enabled);
  c10::impl::tls_set_dispatch_key_included(kKey, autocast.enabled);
}

void clear_meta_autocast_cache() { state.casts.clear(); }

at::Tensor meta_autocast_cast(const at::Tensor& tensor) {
  return state.autocast.enabled ? cast(tensor, state.autocast.dtype) : tensor;
}

}  // namespace memtune::ops
