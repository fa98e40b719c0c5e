#include "core/model/ops/sparse_mixer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace memtune::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SparseMixer : torch::autograd::Function<SparseMixer> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*scores*/, const at::Tensor& odds,
                            const at::Tensor& chosen, const at::Tensor& all_odds, const at::Tensor& factors) {
    context->save_for_backward({odds, chosen, all_odds});
    return odds * factors;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = gradients[0] * saved[0];
    const at::Tensor of_scores = saved[2] * gradient.mul(-1);
    of_scores.scatter_add_(-1, saved[1], gradient);
    return {of_scores, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor sparse_mixer(const at::Tensor& scores, const at::Tensor& odds, const at::Tensor& chosen,
                        const at::Tensor& all_odds, const at::Tensor& factors) {
  return SparseMixer::apply(scores, odds, chosen, all_odds, factors);
}

}  // namespace memtune::ops
