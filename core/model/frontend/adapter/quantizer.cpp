#include "core/model/frontend/adapter/quantizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/model/frontend/adapter/linear_and_embedding_layer_finder.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/program/op_schema.h"
#include "core/model/quantized/int8.h"
#include "core/model/quantized/linear_4bit.h"
#include "core/model/quantized/linear_8bit.h"
#include "core/model/quantized/nf4.h"

namespace memtune::frontend {
namespace {

using program::Op;
using program::Program;
using quantized::Nf4AbsmaxScaleEncoding;

constexpr char kEightBits[] = "8bit";

Nf4AbsmaxScaleEncoding magnitudes_of(const std::string& load_in) {
  return load_in == "4bit" ? Nf4AbsmaxScaleEncoding::quantized : Nf4AbsmaxScaleEncoding::plain;
}

bool can_be_packed(const at::Tensor& weight) {
  const at::ScalarType type = weight.scalar_type();
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

class Quantizer {
 public:
  Quantizer(Program& program, std::string load_in) : program_(program), load_in_(std::move(load_in)), emit_(program) {}

  // A layer that runs twice is packed once.
  void quantize(Op& op, const LinearLayer& layer) {
    if (program_.state.host_weights) program_.state.host_weights->restore(layer.weight);
    const auto [known, is_new] = packed_.try_emplace(layer.path);
    if (is_new) known->second = pack(layer);
    const bool transposed = layer.form == LinearWeightLayoutOrQuantization::transposed;
    const size_t bias = transposed ? 0 : 2;
    std::vector<program::Slot> arguments = {op.inputs[layer.input()], op.inputs[transposed ? 2 : 1]};
    for (const Value argument : known->second) arguments.push_back(argument.slot);
    arguments.push_back(op.inputs.size() > bias ? op.inputs[bias] : emit_.constant({}).slot);
    op.inputs = std::move(arguments);
    become(op);
  }

 private:
  // Returns the operator's arguments between weight and bias.
  Values pack(const LinearLayer& layer) {
    const at::Tensor weight =
        layer.form == LinearWeightLayoutOrQuantization::transposed ? layer.weight.t() : layer.weight;
    return load_in_ == kEightBits ? pack_8bit(layer, weight) : pack_4bit(layer, weight);
  }

  Values pack_4bit(const LinearLayer& layer, const at::Tensor& weight) {
    const quantized::Nf4Weight packed = quantized::pack_nf4(weight, magnitudes_of(load_in_));
    const std::string name = hold(layer, packed.bytes);
    const auto beside = [&](const char* suffix, const at::Tensor& tensor) {
      return tensor.defined() ? emit_.parameter(name + suffix, tensor) : emit_.constant({});
    };
    return {beside(".absmax", packed.largest), beside(".nested_absmax", packed.largest_of_largest),
            beside(".nested_offset", packed.mean), emit_.constant(layer.rows), emit_.constant(layer.columns)};
  }

  Values pack_8bit(const LinearLayer& layer, const at::Tensor& weight) {
    const quantized::Int8Weight packed = quantized::pack_int8(weight);
    const std::string name = hold(layer, packed.numbers);
    return {emit_.parameter(name.substr(0, name.rfind('.') + 1) + "SCB", packed.largest)};
  }

  // Replaces the weight by the packed one everywhere. Returns the parameter's name.
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

  void become(Op& op) const {
    const bool in_8_bits = load_in_ == kEightBits;
    const auto handle = in_8_bits ? quantized::linear_8bit() : quantized::linear_4bit();
    op.name = in_8_bits ? quantized::kLinear8Bit : quantized::kLinear4Bit;
    op.handle = handle;
    op.run = [handle](program::Stack& stack) { handle.callBoxed(stack); };
    op.writes.clear();
    op.may_alias_outputs.clear();
    program::describe(op, handle.schema());
  }

  Program& program_;
  std::string load_in_;
  ProgramEmitter emit_;
  std::map<std::string, Values> packed_;  // by path of the layer
};

// Like transformers, leaves layers of other classes (FalconLinear) as they are.
bool is_other_linear(const Program& program, const Op& op) {
  const std::string& type = program.regions[op.region].type;
  const std::string name = type.substr(type.rfind('.') + 1);
  return name.ends_with("Linear") && name != "Linear";
}

bool takes(const Program& program, const LinearAndEmbeddingLayerFinder& layers, const Op& op,
           const LinearLayer& layer) {
  return !layer.quantized() && can_be_packed(layer.weight) && !layers.is_read_elsewhere(layer.weight) &&
         !is_other_linear(program, op);
}

using Found = std::vector<std::pair<Op*, LinearLayer>>;

void find(const Program& program, const LinearAndEmbeddingLayerFinder& layers, program::ProgramOrControlFlowBody& body,
          Found& found) {
  for (Op& op : body.ops) {
    for (program::ProgramOrControlFlowBody& inner : op.bodies) find(program, layers, inner, found);
    if (auto layer = layers.find(op); layer && !layer->is_head && takes(program, layers, op, *layer))
      found.emplace_back(&op, std::move(*layer));
  }
}

bool is_quantized(const program::ProgramOrControlFlowBody& body) {
  return std::ranges::any_of(body.ops, [](const Op& op) {
    return op.name == quantized::kLinear4Bit || op.name == quantized::kLinear8Bit ||
           std::ranges::any_of(op.bodies, is_quantized);
  });
}

// A linear layer is known not to be the head when the next one is written. So each is quantized then.
class AsWritten {
 public:
  explicit AsWritten(std::string load_in) : load_in_(std::move(load_in)) {}

  void see(Program& program, const Op& op) {
    if (op.name != "aten::linear" && op.name != "aten::addmm") return;
    const size_t before = std::exchange(last_, program.body.ops.size());
    if (before >= program.body.ops.size()) return;
    Op& linear = program.body.ops[before];
    const LinearAndEmbeddingLayerFinder layers(program);
    const auto layer = layers.find(linear);
    if (layer && takes(program, layers, linear, *layer)) Quantizer(program, load_in_).quantize(linear, *layer);
  }

 private:
  std::string load_in_;
  size_t last_ = std::numeric_limits<size_t>::max();
};

}  // namespace

void quantize(Program& program, const std::string& load_in) {
  Found found;
  find(program, LinearAndEmbeddingLayerFinder(program), program.body, found);
  Quantizer quantizer(program, load_in);
  for (auto& [op, layer] : found) quantizer.quantize(*op, std::exchange(layer, {}));
  if (!is_quantized(program.body))
    throw UsageError(
        "--load-in: the model has no linear layer besides its output head that can be quantized; transformers leaves "
        "subclasses of Linear as they are, so measure without --load-in");
}

std::function<void(Program&, const Op&)> quantize_as_written(const std::string& load_in) {
  return [written = AsWritten(load_in)](Program& program, const Op& op) mutable { written.see(program, op); };
}

}  // namespace memtune::frontend
