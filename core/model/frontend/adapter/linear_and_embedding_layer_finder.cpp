#include "core/model/frontend/adapter/linear_and_embedding_layer_finder.h"

#include <algorithm>
#include <string_view>

#include "core/model/quantized/linear_4bit.h"
#include "core/model/quantized/linear_8bit.h"

namespace memtune::frontend {
namespace {

using program::InterpreterInstructionKind;

constexpr std::string_view kWeight = ".weight";

constexpr std::string_view kConv1D = "Conv1D";

constexpr size_t kRows = 5, kColumns = 6;  // arguments of a 4-bit layer

// Index of the weight among the op's arguments.
size_t weight_argument(LinearWeightLayoutOrQuantization form) {
  return form == LinearWeightLayoutOrQuantization::transposed ? 2 : 1;
}

std::optional<LinearWeightLayoutOrQuantization> form_of(const program::Op& op,
                                                        const program::ModuleCallTreeNode& region) {
  if (op.kind != InterpreterInstructionKind::call) return std::nullopt;
  if (op.name == "aten::linear") return LinearWeightLayoutOrQuantization::plain;
  if (op.name == quantized::kLinear4Bit) return LinearWeightLayoutOrQuantization::in_4_bits;
  if (op.name == quantized::kLinear8Bit) return LinearWeightLayoutOrQuantization::in_8_bits;
  if (op.name == "aten::addmm" && region.type.ends_with(kConv1D)) return LinearWeightLayoutOrQuantization::transposed;
  return std::nullopt;
}

}  // namespace

LinearAndEmbeddingLayerFinder::LinearAndEmbeddingLayerFinder(const program::Program& program) : program_(program) {
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

void LinearAndEmbeddingLayerFinder::look(const program::ProgramOrControlFlowBody& body) {
  for (const program::Op& op : body.ops) {
    if (op.kind == InterpreterInstructionKind::get_attribute && op.object)
      held_[op.outputs[0]] = {op.object, op.attribute};
    for (const program::ProgramOrControlFlowBody& inner : op.bodies) look(inner);
    const auto layer = find(op);
    if (layer) paths_.push_back(layer->path);
    note_others(op, layer ? weight_argument(layer->form) : op.inputs.size());
  }
}

void LinearAndEmbeddingLayerFinder::note_others(const program::Op& op, size_t weight) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (const c10::IValue value = value_of(op.inputs[i]); value.isTensor() && i != weight)
      others_.insert(value.toTensor().unsafeGetTensorImpl());
}

// A constant, or the current attribute of an object.
c10::IValue LinearAndEmbeddingLayerFinder::value_of(program::Slot slot) const {
  const auto held = held_.find(slot);
  return held == held_.end() ? program_.constants[slot] : held->second.object->getAttr(held->second.attribute);
}

std::optional<LinearLayer> LinearAndEmbeddingLayerFinder::find(const program::Op& op) const {
  const program::ModuleCallTreeNode& region = program_.regions[op.region];
  const auto form = form_of(op, region);
  if (!form) return std::nullopt;
  LinearLayer layer;
  layer.form = *form;
  const program::Slot slot = op.inputs[weight_argument(*form)];
  const c10::IValue weight = value_of(slot);
  if (!weight.isTensor()) return std::nullopt;
  if (const auto held = held_.find(slot); held != held_.end()) {
    layer.object = held->second.object;
    layer.attribute = held->second.attribute;
  }
  layer.weight = weight.toTensor();
  layer.path = path_of(layer.weight, region, {"Linear", kConv1D});
  if (layer.path.empty()) return std::nullopt;
  set_size(op, layer);
  layer.is_head = program_.has_head && !paths_.empty() && layer.path == paths_.back();
  return layer;
}

void LinearAndEmbeddingLayerFinder::set_size(const program::Op& op, LinearLayer& layer) const {
  if (layer.form == LinearWeightLayoutOrQuantization::in_4_bits) {
    layer.rows = program_.constants[op.inputs[kRows]].toInt();
    layer.columns = program_.constants[op.inputs[kColumns]].toInt();
    return;
  }
  layer.rows = layer.weight.size(0);
  layer.columns = layer.weight.size(1);
  if (layer.form == LinearWeightLayoutOrQuantization::transposed) std::swap(layer.rows, layer.columns);
}

std::optional<EmbeddingLayer> LinearAndEmbeddingLayerFinder::find_embedding(const program::Op& op) const {
  if (op.kind != InterpreterInstructionKind::call || op.name != "aten::embedding") return std::nullopt;
  const c10::IValue weight = value_of(op.inputs[0]);
  if (!weight.isTensor()) return std::nullopt;
  const std::string path = path_of(weight.toTensor(), program_.regions[op.region], {"Embedding"});
  if (path.empty()) return std::nullopt;
  return EmbeddingLayer{path, weight.toTensor()};
}

// For tied weights, the running module determines the path. A module that multiplies by its weight without being a
// linear layer (a router of experts, say) has none.
std::string LinearAndEmbeddingLayerFinder::path_of(const at::Tensor& weight, const program::ModuleCallTreeNode& region,
                                                   std::initializer_list<std::string_view> types) const {
  const auto known = modules_.find(weight.unsafeGetTensorImpl());
  if (known == modules_.end()) return "";
  const std::vector<std::string>& paths = known->second;
  if (std::ranges::find(paths, region.path) == paths.end()) return paths.front();
  return std::ranges::any_of(types, [&](std::string_view type) { return region.type.ends_with(type); }) ? region.path
                                                                                                        : "";
}

std::vector<std::string> LinearAndEmbeddingLayerFinder::names() const {
  std::vector<std::string> names;
  for (const std::string& path : paths_) {
    const std::string name = path.substr(path.rfind('.') + 1);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace memtune::frontend
