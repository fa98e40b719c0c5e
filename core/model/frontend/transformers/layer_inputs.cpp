#include "core/model/frontend/transformers/layer_inputs.h"

#include <ATen/ATen.h>

#include <cmath>

namespace memtune::frontend {

Value write_layer_inputs(DecoderOpEmitter& parts, Value x, Value embedded) {
  const model::TransformersConfig& config = parts.config();
  const int64_t width = config.layer_inputs->width, hidden = config.hidden;
  const std::string base = std::string(config.family.modules.base) + ".";
  const auto by_layer = [&](Value y) { return parts.reshaped(y, parts.shape({config.layers, width})); };
  const Value of_tokens = by_layer(embedded);
  const double scale = std::pow(static_cast<double>(hidden), -0.5), half = std::pow(2.0, -0.5);
  Value y = parts.linear(x, base + "per_layer_model_projection", hidden, config.layers * width, /*bias=*/false);
  // Gemma 3n has its factors as tensors.
  const auto factor = [&](const char* name, double value) {
    return parts.emit().buffer(base + name, at::scalar_tensor(value, parts.dtype()).to(parts.device()));
  };
  if (config.altup)
    parts.emit().op("aten::mul_", "Tensor", {y, factor("per_layer_projection_scale", scale)});
  else
    y = parts.times(y, scale);
  y = parts.norm(by_layer(y), base + "per_layer_projection_norm", width);
  const Value sum = parts.plus(y, of_tokens);
  return config.altup ? parts.multiply(sum, factor("per_layer_input_scale", half)) : parts.times(sum, half);
}

Value write_layer_input(DecoderOpEmitter& parts, Value x, Value input, const std::string& layer) {
  const int64_t width = parts.config().layer_inputs->width, hidden = parts.config().hidden;
  Value y = parts.activated(parts.linear(x, layer + ".per_layer_input_gate", hidden, width, /*bias=*/false));
  y = parts.multiply(y, input);
  y = parts.linear(y, layer + ".per_layer_projection", width, hidden, /*bias=*/false);
  return parts.norm(y, layer + ".post_per_layer_input_norm", hidden);
}

}  // namespace memtune::frontend
