#include "core/model/frontend/torchscript/constants.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

namespace memtune::frontend {
namespace {

// True for ops that accept a CPU number with a tensor on any device.
bool takes_number(const torch::jit::Use& use) {
  static const std::set<std::string> ops = {
      "add",       "sub",  "mul",  "div",  "true_divide", "pow",  "rsub",        "floor_divide",
      "remainder", "eq",   "ne",   "lt",   "le",          "gt",   "ge",          "maximum",
      "minimum",   "add_", "sub_", "mul_", "div_",        "pow_", "masked_fill", "masked_fill_"};
  const std::string name = use.user->kind().toUnqualString();
  const bool filled = name.starts_with("masked_fill") && use.offset != 2;
  return use.user->kind().is_aten() && ops.count(name) && !filled;
}

// A trace stores Python's numbers as tensors of their widest type. Wrapped, they do not promote the other operand, even
// if it has no dimensions.
at::Tensor as_number(const at::Tensor& constant) {
  const at::ScalarType type = constant.scalar_type();
  if (type != at::kDouble && type != at::kLong && type != at::kComplexDouble) return constant;
  at::Tensor number = constant.clone();
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

}  // namespace

c10::IValue on_device(const torch::jit::Value* constant, const c10::IValue& value, c10::Device device) {
  if (value.isDevice() && !value.toDevice().is_meta()) return device;
  if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().is_meta()) return value;
  const auto& uses = constant->uses();
  if (value.toTensor().dim() == 0 && std::all_of(uses.begin(), uses.end(), takes_number))
    return as_number(value.toTensor());
  return value.toTensor().to(device);
}

}  // namespace memtune::frontend
