#include "core/autograd/casts.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <set>

namespace memtune::autograd {
namespace {

namespace ag = torch::autograd;

// The edge from the cast in `tensor`'s history to what was cast; views of the cast are seen through.
ag::Edge behind_cast(const at::Tensor& tensor) {
  static const std::set<std::string> views = {"TBackward0",          "ViewBackward0",         "TransposeBackward0",
                                              "UnsafeViewBackward0", "ReshapeAliasBackward0", "ExpandBackward0",
                                              "UnsqueezeBackward0",  "PermuteBackward0"};
  auto node = tensor.grad_fn();
  while (node && node->num_outputs() > 0) {
    if (node->name() == "ToCopyBackward0") return node->next_edge(0);
    if (!views.count(node->name())) return {};
    node = node->next_edge(0).function;
  }
  return {};
}

}  // namespace

bool is_cast_parameter(const at::Tensor& saved) {
  const ag::Edge source = behind_cast(saved);
  return source.is_valid() && source.function->name() == "torch::autograd::AccumulateGrad";
}

int find_cast_source(const at::Tensor& saved, const std::vector<at::Tensor>& inputs) {
  const ag::Edge source = behind_cast(saved);
  if (!source.is_valid()) return -1;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad() && ag::impl::gradient_edge(inputs[i]) == source)
      return static_cast<int>(i);
  return -1;
}

}  // namespace memtune::autograd
