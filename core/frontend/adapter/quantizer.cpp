#include "core/frontend/adapter/quantizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/frontend/adapter/linear_layers.h"
#include "core/frontend/emitter.h"
#include "core/program/op_schema.h"
#include "core/quantized/linear_4bit.h"
#include "core/quantized/nf4.h"

namespace memtune::frontend {
namespace {

using program::Op;
using program::Program;
using quantized::Magnitudes;

Magnitudes magnitudes_of(const std::string& load_in) {
  return load_in == "4bit" ? Magnitudes::quantized : Magnitudes::plain;
}

bool can_be_packed(const at::Tensor& weight) {
  const at::ScalarType type = weight.scalar_type();
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

class Quantizer {
 public:
  Quantizer(Program& program, Magnitudes magnitudes) : program_(program), magnitudes_(magnitudes), emit_(program) {}

  // A layer that runs twice is packed once.
  void quantize(Op& op, const LinearLayer& layer) {
    const auto [known, is_new] = packed_.try_emplace(layer.path);
    if (is_new) known->second = pack(layer);
    const program::Slot bias = op.inputs.size() > 2 ? op.inputs[2] : emit_.constant({}).slot;
    op.inputs.resize(2);
    for (const Value argument : known->second) op.inputs.push_back(argument.slot);
    op.inputs.push_back(bias);
    become(op);
  }

 private:
  // The operator's arguments between weight and bias.
  Values pack(const LinearLayer& layer) {
    const quantized::Nf4 packed = quantized::pack_nf4(layer.weight, magnitudes_);
    const std::string name = hold(layer, packed.bytes);
    const auto beside = [&](const char* suffix, const at::Tensor& tensor) {
      return tensor.defined() ? emit_.parameter(name + suffix, tensor) : emit_.constant({});
    };
    return {beside(".absmax", packed.largest), beside(".nested_absmax", packed.largest_of_largest),
            beside(".nested_offset", packed.mean), emit_.constant(layer.rows), emit_.constant(layer.columns)};
  }

  // The packed weight stands where the whole one stood.
  std::string hold(const LinearLayer& layer, const at::Tensor& packed) {
    std::string name;
    for (auto& [known, tensor] : program_.state.parameters)
      if (tensor.is_same(layer.weight)) {
        name = known;
        tensor = packed;
      }
    if (layer.object) layer.object->setAttr(layer.attribute, packed);
    for (c10::IValue& constant : program_.constants)
      if (constant.isTensor() && constant.toTensor().is_same(layer.weight)) constant = packed;
    return name;
  }

  static void become(Op& op) {
    const auto handle = quantized::linear_4bit();
    op.name = quantized::kLinear4Bit;
    op.handle = handle;
    op.run = [handle](program::Stack& stack) { handle.callBoxed(stack); };
    op.writes.clear();
    op.hands_on.clear();
    program::describe(op, handle.schema());
  }

  Program& program_;
  Magnitudes magnitudes_;
  Emitter emit_;
  std::map<std::string, Values> packed_;  // by the layer's path
};

bool takes(const LinearLayers& layers, const LinearLayer& layer) {
  return !layer.quantized && can_be_packed(layer.weight) && !layers.is_read_elsewhere(layer.weight);
}

using Found = std::vector<std::pair<Op*, LinearLayer>>;

void find(const LinearLayers& layers, program::Body& body, Found& found) {
  for (Op& op : body.ops) {
    for (program::Body& inner : op.bodies) find(layers, inner, found);
    if (auto layer = layers.find(op); layer && !layer->is_head && takes(layers, *layer))
      found.emplace_back(&op, std::move(*layer));
  }
}

bool is_quantized(const program::Body& body) {
  return std::ranges::any_of(body.ops, [](const Op& op) {
    return op.name == quantized::kLinear4Bit || std::ranges::any_of(op.bodies, is_quantized);
  });
}

// That a linear layer is not the head is known when the next one comes.
class AsWritten {
 public:
  explicit AsWritten(Magnitudes magnitudes) : magnitudes_(magnitudes) {}

  void see(Program& program, const Op& op) {
    if (op.name != "aten::linear") return;
    const size_t before = std::exchange(last_, program.body.ops.size());
    if (before >= program.body.ops.size()) return;
    Op& linear = program.body.ops[before];
    const LinearLayers layers(program);
    const auto layer = layers.find(linear);
    if (layer && takes(layers, *layer)) Quantizer(program, magnitudes_).quantize(linear, *layer);
  }

 private:
  Magnitudes magnitudes_;
  size_t last_ = std::numeric_limits<size_t>::max();
};

}  // namespace

void quantize(Program& program, const std::string& load_in) {
  Found found;
  find(LinearLayers(program), program.body, found);
  Quantizer quantizer(program, magnitudes_of(load_in));
  for (auto& [op, layer] : found) quantizer.quantize(*op, std::exchange(layer, {}));
  if (!is_quantized(program.body))
    throw UsageError("--load-in: the model has no linear layer beside its output head that can be quantized");
}

std::function<void(Program&, const Op&)> quantize_as_written(const std::string& load_in) {
  return [written = AsWritten(magnitudes_of(load_in))](Program& program, const Op& op) mutable {
    written.see(program, op);
  };
}

}  // namespace memtune::frontend
