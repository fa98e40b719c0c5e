#include "core/engine/autograd/casts.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <set>
#include <string>
#include <typeindex>
#include <unordered_map>

namespace memtune::autograd {
namespace {

namespace ag = torch::autograd;

enum class Kind { other, cast, view, parameter };

Kind kind_named(const std::string& name) {
  static const std::set<std::string> views = {"TBackward0",          "ViewBackward0",         "TransposeBackward0",
                                              "UnsafeViewBackward0", "ReshapeAliasBackward0", "ExpandBackward0",
                                              "UnsqueezeBackward0",  "PermuteBackward0"};
  if (name == "ToCopyBackward0") return Kind::cast;
  if (name == "torch::autograd::AccumulateGrad") return Kind::parameter;
  return views.count(name) ? Kind::view : Kind::other;
}

// Node::name() builds a string on every call, so the kind is cached by node type.
Kind kind_of(const ag::Node& node) {
  thread_local std::unordered_map<std::type_index, Kind> kinds;
  const auto [known, added] = kinds.try_emplace(typeid(node));
  if (added) known->second = kind_named(node.name());
  return known->second;
}

// Returns the edge from the cast in the tensor's history to its source. Views of the cast are skipped; invalid if there
// is no cast.
ag::Edge behind_cast(const at::Tensor& tensor) {
  auto node = tensor.grad_fn();
  while (node && node->num_outputs() > 0) {
    const Kind kind = kind_of(*node);
    if (kind == Kind::cast) return node->next_edge(0);
    if (kind != Kind::view) return {};
    node = node->next_edge(0).function;
  }
  return {};
}

}  // namespace

bool is_cast_parameter(const at::Tensor& saved) {
  const ag::Edge source = behind_cast(saved);
  return source.is_valid() && kind_of(*source.function) == Kind::parameter;
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
