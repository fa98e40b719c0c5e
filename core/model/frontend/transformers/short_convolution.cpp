#include "core/model/frontend/transformers/short_convolution.h"

#include "core/model/frontend/transformers/causal_convolution_config.h"

namespace memtune::frontend {

Value write_short_convolution(DecoderOpEmitter& parts, Value x, const std::string& layer) {
  ProgramEmitter& emit = parts.emit();
  const model::ShortConvolutionConfig& config = *parts.config().convolution;
  const int64_t width = parts.config().hidden;
  const std::string path = layer + ".conv";
  const ProgramEmitter::InRegion region(emit, path, parts.type("ShortConv"));
  const auto turned = [&](Value y) { return emit.op("aten::transpose", "int", {y, -1, -2}); };
  const Value wide = turned(parts.linear(x, path + ".in_proj", width, 3 * width, config.bias));
  const Values three = emit.unpack_list(emit.op("aten::chunk", "", {wide, 3, -2}), 3);
  const Value gated = parts.multiply(three[0], three[2]);
  const Value causal =
      write_causal_convolution(parts, gated, {path + ".conv", width, config.width, config.bias, /*activated=*/false});
  const Value y = parts.multiply(three[1], causal);
  return parts.linear(emit.op("aten::contiguous", "", {turned(y)}), path + ".out_proj", width, width, config.bias);
}

}  // namespace memtune::frontend
