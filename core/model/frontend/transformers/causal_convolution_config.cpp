#include "core/model/frontend/transformers/causal_convolution_config.h"

namespace memtune::frontend {

using c10::IValue;

Value write_causal_convolution(DecoderOpEmitter& parts, Value x, const CausalConvolutionConfig& convolution) {
  ProgramEmitter& emit = parts.emit();
  const std::string& path = convolution.path;
  const int64_t channels = convolution.channels, kernel = convolution.kernel;
  const Value weight = parts.parameter(path + ".weight", {channels, 1, kernel}, SyntheticWeightInitialization::noise);
  const ValueOrConstantOpArgument bias =
      convolution.bias
          ? ValueOrConstantOpArgument(parts.parameter(path + ".bias", {channels}, SyntheticWeightInitialization::zeros))
          : IValue();
  const Value flat = emit.op("aten::unsqueeze", "", {emit.op("aten::squeeze", "dim", {weight, 1}), 1});
  const std::vector<int64_t> one = {1}, before = {kernel - 1};
  const Value all = emit.op("aten::conv1d", "", {parts.like(x, flat), flat, bias, one, before, one, channels});
  Value y = emit.op("aten::slice", "Tensor", {all, 2, 0, parts.length(), 1});
  if (convolution.activated) y = parts.activated(y);
  return parts.like(y, x);
}

}  // namespace memtune::frontend
