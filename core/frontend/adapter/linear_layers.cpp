#include "core/frontend/adapter/linear_layers.h"

#include <algorithm>
#include <string_view>

namespace memtune::frontend {
namespace {

using program::OpKind;

constexpr std::string_view kWeight = ".weight";

bool is_linear(const program::Op& op) { return op.name == "aten::linear" || op.name.starts_with("memtune::linear_"); }

}  // namespace

LinearLayers::LinearLayers(const program::Program& program) : program_(program) {
  std::unordered_map<std::string, const void*> tensors;
  const auto add = [&](const std::string& name, const void* tensor) {
    if (name.ends_with(kWeight)) modules_[tensor].push_back(name.substr(0, name.size() - kWeight.size()));
  };
  for (const auto& [name, tensor] : program.state.parameters) {
    tensors[name] = tensor.unsafeGetTensorImpl();
    add(name, tensor.unsafeGetTensorImpl());
  }
  for (const auto& [name, tied] : program.state.ties) add(name, tensors.at(tied));
  look(program.body);
}

void LinearLayers::look(const program::Body& body) {
  for (const program::Op& op : body.ops) {
    if (op.kind == OpKind::get_attribute && op.object) held_[op.outputs[0]] = {op.object, op.attribute};
    for (const program::Body& inner : op.bodies) look(inner);
    if (const auto layer = find(op)) paths_.push_back(layer->path);
  }
}

std::optional<LinearLayer> LinearLayers::find(const program::Op& op) const {
  if (op.kind != OpKind::call || !is_linear(op)) return std::nullopt;
  LinearLayer layer;
  c10::IValue weight;
  if (const auto held = held_.find(op.inputs[1]); held != held_.end()) {
    layer.object = held->second.object;
    layer.attribute = held->second.attribute;
    weight = layer.object->getAttr(layer.attribute);
  } else {
    weight = program_.constants[op.inputs[1]];
  }
  if (!weight.isTensor()) return std::nullopt;
  layer.weight = weight.toTensor();
  layer.path = path_of(layer.weight, program_.regions[op.region]);
  if (layer.path.empty()) return std::nullopt;
  layer.is_head = !paths_.empty() && layer.path == paths_.back();
  return layer;
}

// Of tied weights the module that runs tells which one it is. A module that multiplies by a weight of its own without
// being a linear layer, a router of experts say, is none.
std::string LinearLayers::path_of(const at::Tensor& weight, const program::ModuleRegion& region) const {
  const auto known = modules_.find(weight.unsafeGetTensorImpl());
  if (known == modules_.end()) return "";
  const std::vector<std::string>& paths = known->second;
  if (std::ranges::find(paths, region.path) == paths.end()) return paths.front();
  return region.type.ends_with("Linear") ? region.path : "";
}

std::vector<std::string> LinearLayers::names() const {
  std::vector<std::string> names;
  for (const std::string& path : paths_) {
    const std::string name = path.substr(path.rfind('.') + 1);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace memtune::frontend
