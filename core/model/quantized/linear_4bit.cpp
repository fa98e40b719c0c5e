#include "core/model/quantized/linear_4bit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/model/ops/autocast.h"
#include "core/model/quantized/nf4.h"

namespace memtune::quantized {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType compute_type(const at::Tensor& input) {
  const ops::AutocastState autocast = ops::AutocastState::now(input.device().type());
  return autocast.enabled ? autocast.dtype : input.scalar_type();
}

// The node stores the weight's tensors directly, so that hooks on saved tensors do not see them.
struct Linear4Bit : torch::autograd::Function<Linear4Bit> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const Nf4Weight& weight,
                            at::IntArrayRef shape, const std::optional<at::Tensor>& bias) {
    const at::ScalarType type = compute_type(input);
    context->saved_data["bytes"] = weight.bytes;
    context->saved_data["largest"] = weight.largest;
    context->saved_data["largest_of_largest"] = weight.largest_of_largest;
    context->saved_data["mean"] = weight.mean;
    context->saved_data["shape"] = shape;
    context->saved_data["type"] = type;
    context->saved_data["input_type"] = input.scalar_type();
    if (bias) context->saved_data["bias_type"] = bias->scalar_type();
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const std::optional<at::Tensor> added = bias ? std::optional(bias->to(type)) : std::nullopt;
    return at::linear(input.to(type), unpack_nf4(weight, shape, type), added).to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& saved = context->saved_data;
    const at::Tensor gradient = gradients[0].to(saved.at("type").toScalarType());
    at::Tensor of_input, of_bias;
    if (context->needs_input_grad(0)) {
      const Nf4Weight weight = {saved.at("bytes").toTensor(), saved.at("largest").toTensor(),
                                saved.at("largest_of_largest").toTensor(), saved.at("mean").toTensor()};
      const auto shape = saved.at("shape").toIntVector();
      of_input = at::matmul(gradient, unpack_nf4(weight, shape, gradient.scalar_type()))
                     .to(saved.at("input_type").toScalarType());
    }
    if (saved.count("bias_type") > 0 && context->needs_input_grad(1))
      of_bias = gradient.reshape({-1, gradient.size(-1)}).sum(0, false, saved.at("bias_type").toScalarType());
    return {of_input, {}, {}, of_bias};
  }
};

at::Tensor linear_4bit_with_gradient(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& largest,
                                     const std::optional<at::Tensor>& largest_of_largest,
                                     const std::optional<at::Tensor>& mean, int64_t rows, int64_t columns,
                                     const std::optional<at::Tensor>& bias) {
  const Nf4Weight packed = {weight, largest, largest_of_largest.value_or(at::Tensor()), mean.value_or(at::Tensor())};
  const std::vector<int64_t> shape = {rows, columns};
  return Linear4Bit::apply(input, packed, at::IntArrayRef(shape), bias);
}

}  // namespace

c10::OperatorHandle linear_4bit() { return c10::Dispatcher::singleton().findSchemaOrThrow(kLinear4Bit, ""); }

TORCH_LIBRARY_FRAGMENT(memtune, library) {
  library.def(
      "linear_4bit(Tensor input, Tensor weight, Tensor largest, Tensor? largest_of_largest, Tensor? mean, int rows, "
      "int columns, Tensor? bias=None) -> Tensor");
}
TORCH_LIBRARY_IMPL(memtune, CompositeImplicitAutograd, library) {
  library.impl("linear_4bit", linear_4bit_with_gradient);
}

}  // namespace memtune::quantized
