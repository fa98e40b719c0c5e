#include "core/frontend/adapter/linear_layers.h"

#include <algorithm>
#include <string_view>

#include "core/quantized/linear_4bit.h"

namespace memtune::frontend {
namespace {

using program::OpKind;

constexpr std::string_view kWeight = ".weight";

constexpr size_t kWeightArgument = 1, kRows = 5, kColumns = 6;  // the last two of a quantized layer

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
    const auto layer = find(op);
    if (layer) paths_.push_back(layer->path);
    note_others(op, layer.has_value());
  }
}

void LinearLayers::note_others(const program::Op& op, bool is_layer) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (const c10::IValue value = value_of(op.inputs[i]); value.isTensor() && !(is_layer && i == kWeightArgument))
      others_.insert(value.toTensor().unsafeGetTensorImpl());
}

// Of a constant, or what an object holds now.
c10::IValue LinearLayers::value_of(program::Slot slot) const {
  const auto held = held_.find(slot);
  return held == held_.end() ? program_.constants[slot] : held->second.object->getAttr(held->second.attribute);
}

std::optional<LinearLayer> LinearLayers::find(const program::Op& op) const {
  LinearLayer layer;
  layer.quantized = op.name == quantized::kLinear4Bit;
  if (op.kind != OpKind::call || (op.name != "aten::linear" && !layer.quantized)) return std::nullopt;
  const program::Slot slot = op.inputs[kWeightArgument];
  const c10::IValue weight = value_of(slot);
  if (!weight.isTensor()) return std::nullopt;
  if (const auto held = held_.find(slot); held != held_.end()) {
    layer.object = held->second.object;
    layer.attribute = held->second.attribute;
  }
  layer.weight = weight.toTensor();
  layer.path = path_of(layer.weight, program_.regions[op.region]);
  if (layer.path.empty()) return std::nullopt;
  layer.rows = layer.quantized ? program_.constants[op.inputs[kRows]].toInt() : layer.weight.size(0);
  layer.columns = layer.quantized ? program_.constants[op.inputs[kColumns]].toInt() : layer.weight.size(1);
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
