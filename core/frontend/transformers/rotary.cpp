#include "core/frontend/transformers/rotary.h"

#include <ATen/ATen.h>

#include <limits>
#include <numbers>

namespace memtune::frontend {
namespace {

using c10::IValue;
using config::Rotary;
using config::RotaryKind;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

at::Tensor llama3_frequencies(const Rotary& rotary, const at::Tensor& plain) {
  const double positions = rotary.trained_positions, low = rotary.low_frequency, high = rotary.high_frequency;
  const at::Tensor wave = plain.reciprocal() * (2 * std::numbers::pi);
  const at::Tensor slowed = at::where(wave > positions / low, plain / rotary.factor, plain);
  const at::Tensor part = (wave.reciprocal() * positions - low) / (high - low);
  const at::Tensor between = (1 - part) * slowed / rotary.factor + part * slowed;
  return at::where(~(wave < positions / high) * ~(wave > positions / low), between, slowed);
}

Value cat(Emitter& emit, Value first, Value second) {
  return emit.op("aten::cat", "", {emit.list(c10::ListType::ofTensors(), {first, second}), -1});
}

Value slice(Emitter& emit, Value x, int64_t begin, int64_t end) {
  return emit.op("aten::slice", "Tensor", {x, 3, begin, end, 1});
}

Value turned(Emitter& emit, Value x, int64_t width, std::pair<Value, Value> turn) {
  const Value straight = emit.op("aten::mul", "Tensor", {x, turn.first});
  const Value first = slice(emit, x, 0, width / 2), second = slice(emit, x, width / 2, kEnd);
  const Value swapped = cat(emit, emit.op("aten::neg", "", {second}), first);
  return emit.op("aten::add", "Tensor", {straight, emit.op("aten::mul", "Tensor", {swapped, turn.second})});
}

}  // namespace

at::Tensor rotary_frequencies(const Rotary& rotary) {
  const at::Tensor exponent = at::arange(0, rotary.width, 2, at::kFloat) / rotary.width;
  const at::Tensor plain = at::pow(rotary.theta, exponent).reciprocal();
  if (rotary.kind == RotaryKind::linear) return plain / rotary.factor;
  return rotary.kind == RotaryKind::llama3 ? llama3_frequencies(rotary, plain) : plain;
}

std::pair<Value, Value> write_rotary(Emitter& emit, const config::TransformersConfig& config, Value length,
                                     at::ScalarType dtype, c10::Device device) {
  const Value counted = emit.op("aten::arange", "", {length, IValue(), IValue(), device, false});
  const Value position = emit.op("aten::unsqueeze", "", {emit.op("aten::add", "Scalar", {counted, 0}), 0});
  const Emitter::InRegion region(emit, "model.rotary_emb", std::string(config.family.class_prefix) + "RotaryEmbedding");
  const Value frequency = emit.buffer("model.rotary_emb.inv_freq", rotary_frequencies(config.rotary).to(device));
  emit.enter_grad_mode(emit.constant(false));
  emit.enter_autocast(emit.constant(c10::DeviceTypeName(device.type(), true)), emit.constant(false),
                      emit.constant(at::kBFloat16));
  const Value row = emit.op("aten::unsqueeze", "", {emit.op("aten::unsqueeze", "", {frequency, 0}), 2});
  const Value wide = emit.op("aten::expand", "", {row, std::vector<int64_t>{1, -1, 1}});
  const Value at = emit.op("aten::to", "dtype", {emit.op("aten::unsqueeze", "", {position, 1}), at::kFloat});
  const Value angle = emit.op("aten::transpose", "int", {emit.op("aten::matmul", "", {wide, at}), 1, 2});
  const Value both = cat(emit, angle, angle);
  const auto scaled = [&](const char* function) {
    return emit.op("aten::mul", "Scalar", {emit.op(function, "", {both}), 1.0});
  };
  Value cosine = scaled("aten::cos"), sine = scaled("aten::sin");
  emit.leave();
  if (!config.family.rotary_in_float) {
    cosine = emit.op("aten::to", "dtype", {cosine, dtype});
    sine = emit.op("aten::to", "dtype", {sine, dtype});
  }
  emit.leave();
  return {cosine, sine};
}

Value write_turned(Emitter& emit, const config::TransformersConfig& config, Value x, std::pair<Value, Value> turn,
                   at::ScalarType dtype) {
  const int64_t width = config.rotary.width;
  if (config.family.partial_rotary) {
    const Value part = slice(emit, x, 0, width), rest = slice(emit, x, width, kEnd);
    return cat(emit, turned(emit, part, width, turn), rest);
  }
  x = turned(emit, x, width, turn);
  return config.family.rotary_in_float ? emit.op("aten::to", "dtype", {x, dtype}) : x;
}

}  // namespace memtune::frontend
