#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/model/frontend/transformers/rotary.h"

namespace memtune::frontend {
namespace {

using model::RotaryConfig;
using model::RotaryScalingKind;

at::Tensor exponents(const RotaryConfig& rotary) { return at::arange(0, rotary.width, 2, at::kFloat) / rotary.width; }

at::Tensor llama3(const RotaryConfig& rotary, const at::Tensor& plain) {
  const double positions = rotary.trained_positions, low = rotary.low_frequency, high = rotary.high_frequency;
  const at::Tensor wave = plain.reciprocal() * (2 * std::numbers::pi);
  const at::Tensor slowed = at::where(wave > positions / low, plain / rotary.factor, plain);
  const at::Tensor part = (wave.reciprocal() * positions - low) / (high - low);
  const at::Tensor between = (1 - part) * slowed / rotary.factor + part * slowed;
  return at::where(~(wave < positions / high) * ~(wave > positions / low), between, slowed);
}

// Divides low frequencies by the factor and keeps high ones, with a linear ramp in between.
at::Tensor yarn(const RotaryConfig& rotary) {
  const auto width = static_cast<double>(rotary.width);
  const auto pair_that_turns = [&](double times) {
    return width * std::log(rotary.trained_positions / (times * 2 * std::numbers::pi)) / (2 * std::log(rotary.theta));
  };
  double begin = pair_that_turns(rotary.fast), end = pair_that_turns(rotary.slow);
  if (rotary.whole_numbers) {
    begin = std::floor(begin);
    end = std::ceil(end);
  }
  begin = std::max(begin, 0.0);
  end = std::min(end, width - 1);
  if (begin == end) end += 0.001;
  const at::Tensor waves = at::pow(rotary.theta, exponents(rotary));
  const at::Tensor ramp = ((at::arange(rotary.width / 2, at::kFloat) - begin) / (end - begin)).clamp(0, 1);
  const at::Tensor kept = 1 - ramp;
  return (waves * rotary.factor).reciprocal() * (1 - kept) + waves.reciprocal() * kept;
}

at::Tensor longrope(const RotaryConfig& rotary) {
  const at::Tensor factors = at::tensor(rotary.factors, at::kFloat);
  return (factors * at::pow(rotary.theta, exponents(rotary))).reciprocal();
}

at::Tensor proportional(const RotaryConfig& rotary) {
  const at::Tensor turned = at::arange(0, 2 * rotary.turned_pairs, 2, at::kLong).to(at::kFloat) / rotary.width;
  const at::Tensor none = at::zeros({rotary.width / 2 - rotary.turned_pairs}, at::kFloat);
  return at::cat({at::pow(rotary.theta, turned).reciprocal(), none}) / rotary.factor;
}

}  // namespace

at::Tensor rotary_frequencies(const RotaryConfig& rotary) {
  if (rotary.kind == RotaryScalingKind::yarn) return yarn(rotary);
  if (rotary.kind == RotaryScalingKind::proportional) return proportional(rotary);
  if (rotary.kind == RotaryScalingKind::longrope) return longrope(rotary);
  const at::Tensor plain = at::pow(rotary.theta, exponents(rotary)).reciprocal();
  if (rotary.kind == RotaryScalingKind::linear) return plain / rotary.factor;
  return rotary.kind == RotaryScalingKind::llama3 ? llama3(rotary, plain) : plain;
}

}  // namespace memtune::frontend
