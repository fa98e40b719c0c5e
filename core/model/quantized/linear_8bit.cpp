#include "core/model/quantized/linear_8bit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/model/quantized/int8.h"

namespace memtune::quantized {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// If autocast is on, it casts the operators called here, as in bitsandbytes.
struct Linear8Bit : torch::autograd::Function<Linear8Bit> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const Int8Weight& weight,
                            const std::optional<at::Tensor>& bias) {
    context->saved_data["numbers"] = weight.numbers;
    context->saved_data["largest"] = weight.largest;
    context->saved_data["type"] = input.scalar_type();
    if (bias) context->saved_data["bias_type"] = bias->scalar_type();
    const std::optional<at::Tensor> added = bias ? std::optional(bias->to(input.scalar_type())) : std::nullopt;
    if (!input.is_cpu() && !input.is_meta()) return by_int8(context, input, weight, added);
    context->save_for_backward({input});
    return at::linear(input, unpack_int8(weight, input.scalar_type()), added);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& saved = context->saved_data;
    const at::Tensor& gradient = gradients[0];
    const at::ScalarType type = saved.at("type").toScalarType();
    at::Tensor of_input, of_bias;
    if (context->needs_input_grad(0)) {
      const Int8Weight weight = {saved.at("numbers").toTensor(), saved.at("largest").toTensor()};
      of_input = at::matmul(gradient.to(type), unpack_int8(weight, type));
    }
    if (saved.count("bias_type") > 0 && context->needs_input_grad(1))
      of_bias = gradient.sum(0, false, saved.at("bias_type").toScalarType()).sum_to_size({gradient.size(-1)});
    return {of_input, {}, of_bias};
  }

 private:
  static at::Tensor by_int8(AutogradContext* context, const at::Tensor& input, const Int8Weight& weight,
                            const std::optional<at::Tensor>& bias) {
    const Int8MatmulOutputAndOutlierColumns product = multiply_int8(input.reshape({-1, input.size(-1)}), weight, bias);
    context->save_for_backward({input, product.outliers});
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = weight.numbers.size(0);
    return product.output.view(shape);
  }
};

at::Tensor linear_8bit_with_gradient(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& largest,
                                     const std::optional<at::Tensor>& bias) {
  return Linear8Bit::apply(input, Int8Weight{weight, largest}, bias);
}

}  // namespace

c10::OperatorHandle linear_8bit() { return c10::Dispatcher::singleton().findSchemaOrThrow(kLinear8Bit, ""); }

TORCH_LIBRARY_FRAGMENT(memtune, library) {
  library.def("linear_8bit(Tensor input, Tensor weight, Tensor largest, Tensor? bias=None) -> Tensor");
}
TORCH_LIBRARY_IMPL(memtune, CompositeImplicitAutograd, library) {
  library.impl("linear_8bit", linear_8bit_with_gradient);
}

}  // namespace memtune::quantized
