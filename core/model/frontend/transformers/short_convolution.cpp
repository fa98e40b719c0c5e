#include "core/model/frontend/transformers/short_convolution.h"

namespace memtune::frontend {

using c10::IValue;

Value write_short_convolution(DecoderBuilder& parts, Value x, const std::string& layer) {
  Emitter& emit = parts.emit();
  const model::ConvolutionConfig& config = *parts.config().convolution;
  const int64_t width = parts.config().hidden;
  const std::string path = layer + ".conv";
  const Emitter::InRegion region(emit, path, parts.type("ShortConv"));
  const auto turned = [&](Value y) { return emit.op("aten::transpose", "int", {y, -1, -2}); };
  const Value wide = turned(parts.linear(x, path + ".in_proj", width, 3 * width, config.bias));
  const Values three = emit.unpack_list(emit.op("aten::chunk", "", {wide, 3, -2}), 3);
  const Value gated = parts.multiply(three[0], three[2]);
  const Value weight = parts.parameter(path + ".conv.weight", {width, 1, config.width}, WeightInit::noise);
  const OpArgument bias =
      config.bias ? OpArgument(parts.parameter(path + ".conv.bias", {width}, WeightInit::zeros)) : OpArgument(IValue());
  const Value flat = emit.op("aten::unsqueeze", "", {emit.op("aten::squeeze", "dim", {weight, 1}), 1});
  const std::vector<int64_t> one = {1}, before = {config.width - 1};
  const Value all = emit.op("aten::conv1d", "", {parts.like(gated, flat), flat, bias, one, before, one, width});
  const Value causal = emit.op("aten::slice", "Tensor", {all, 2, 0, parts.length(), 1});
  const Value y = parts.multiply(three[1], parts.like(causal, gated));
  return parts.linear(emit.op("aten::contiguous", "", {turned(y)}), path + ".out_proj", width, width, config.bias);
}

}  // namespace memtune::frontend
