#include "core/model/ops/bloom_gelu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace memtune::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor tanh_of(const at::Tensor& x) { return at::tanh(x * 0.79788456 * (x * 0.044715 * x + 1)); }

struct BloomGelu : torch::autograd::Function<BloomGelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * 0.5 * (tanh_of(x) + 1.0);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0], t = tanh_of(x);
    const at::Tensor slope = x * 0.5 * (at::rsub(t * t, 1) * (x * 0.1070322243 * x + 0.79788456)) + (t + 1) * 0.5;
    return {slope * gradients[0]};
  }
};

}  // namespace

at::Tensor bloom_gelu(const at::Tensor& x) { return BloomGelu::apply(x); }

}  // namespace memtune::ops
