#include "core/model/frontend/transformers/altup.h"

#include <ATen/ATen.h>

#include <limits>

#include "core/model/frontend/transformers/layer_inputs.h"

namespace memtune::frontend {
namespace {

constexpr double kLeastMagnitude = 1e-5;

class AltupWriter {
 public:
  explicit AltupWriter(DecoderOpEmitter& parts, const std::string& layer = "")
      : parts_(parts), emit_(parts.emit()), config_(parts.config()), altup_(*config_.altup), path_(layer + ".altup") {}

  Value streams(Value x) {
    const Value magnitude = root_mean_square(x);
    Values all = {x};
    for (int64_t i = 1; i < altup_.streams; ++i) all.push_back(projected(x, "altup_projections", i - 1, magnitude));
    return emit_.op("aten::stack", "", {emit_.list(c10::ListType::ofTensors(), all), 0});
  }

  Value mean(Value streams) {
    const Value magnitude = root_mean_square(stream(streams, 0));
    Values all = {stream(streams, 0)};
    for (int64_t i = 1; i < altup_.streams; ++i)
      all.push_back(projected(stream(streams, i), "altup_unembed_projections", i - 1, magnitude));
    const Value stacked = emit_.op("aten::stack", "", {emit_.list(c10::ListType::ofTensors(), all), 0});
    return emit_.op("aten::mean", "dim", {stacked, std::vector<int64_t>{0}});
  }

  Value prediction(Value streams) {
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type("TextAltUp"));
    const Value routed = modalities(active(streams));
    const Value flat = coefficients(routed);
    const Value square = parts_.reshaped(flat, parts_.shape({altup_.streams, altup_.streams}));
    const Value factors = permuted(square, {0, 1, 3, 2});
    const Value mixed = emit_.op("aten::matmul", "", {permuted(streams, {1, 2, 3, 0}), factors});
    const Value y = permuted(mixed, {3, 0, 1, 2});
    emit_.op("aten::add_", "Tensor", {y, streams});
    return parts_.like(emit_.op("aten::contiguous", "", {y}), streams);
  }

  Value correction(Value predictions, Value activated) {
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type("TextAltUp"));
    const Value routed = modalities(activated);
    const Value innovation = emit_.op("aten::sub", "Tensor", {activated, active(predictions)});
    const Value each = emit_.op("aten::repeat", "", {innovation, std::vector<int64_t>{altup_.streams, 1, 1, 1}});
    const Value weight = clamped(weights("correction_coefs", altup_.streams));
    const Value linear = emit_.op("aten::linear", "", {routed, weight});
    const Value from_one = emit_.op("aten::add", "Scalar", {linear, 1.0});
    const Value factors = emit_.op("aten::unsqueeze", "", {permuted(from_one, {2, 0, 1}), -1});
    const Value y = parts_.multiply(each, factors);
    emit_.op("aten::add_", "Tensor", {y, predictions});
    return parts_.like(emit_.op("aten::contiguous", "", {y}), activated);
  }

  // A copy, because the streams are changed in place.
  Value scaled_copy(Value streams) {
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type("TextAltUp"));
    const std::string name = path_ + ".correct_output_scale";
    const Value x = emit_.op("aten::clone", "", {active(streams)});
    const Value scale = parts_.parameter(name, {config_.hidden}, SyntheticWeightInitialization::zeros);
    return parts_.like(parts_.multiply(parts_.like(x, scale), scale), x);
  }

  Value active(Value streams) { return stream(streams, altup_.active); }

 private:
  Value stream(Value streams, int64_t index) { return emit_.op("aten::select", "int", {streams, 0, index}); }

  Value mean_square(Value x) {
    const Value square = emit_.op("aten::pow", "Tensor_Scalar", {x, 2});
    return emit_.op("aten::mean", "dim", {square, std::vector<int64_t>{-1}, true});
  }
  Value root_mean_square(Value x) { return emit_.op("aten::pow", "Tensor_Scalar", {mean_square(x), 0.5}); }

  // Of the given magnitude.
  Value projected(Value x, const char* name, int64_t index, Value magnitude) {
    const std::string path = std::string(config_.family.modules.base) + "." + name + "." + std::to_string(index);
    const Value y = parts_.cast(parts_.linear(x, path, config_.hidden, config_.hidden, /*bias=*/false), parts_.dtype());
    const Value least = emit_.constant(at::scalar_tensor(kLeastMagnitude, at::kFloat).to(parts_.device()));
    const Value own = emit_.op("aten::sqrt", "", {emit_.op("aten::maximum", "", {mean_square(y), least})});
    return emit_.op("aten::div", "Tensor", {parts_.multiply(y, magnitude), own});
  }

  Value modalities(Value x) {
    const Value normed = parts_.norm(x, path_ + ".router_norm", config_.hidden);
    const at::Tensor scale = at::scalar_tensor(1.0 / static_cast<double>(config_.hidden), parts_.dtype());
    const Value scaled =
        parts_.multiply(normed, emit_.buffer(path_ + ".router_input_scale", scale.to(parts_.device())));
    const Value routed =
        parts_.linear(scaled, path_ + ".modality_router", config_.hidden, altup_.streams, /*bias=*/false);
    return parts_.like(emit_.op("aten::tanh", "", {parts_.cast(routed, at::kFloat)}), x);
  }

  Value coefficients(Value routed) {
    const Value weight = weights("prediction_coefs", altup_.streams * altup_.streams);
    if (altup_.clip) clamp_in_place(weight);
    return emit_.op("aten::linear", "", {routed, weight});
  }

  Value weights(const char* name, int64_t out) {
    return parts_.parameter(path_ + "." + name + ".weight", {out, altup_.streams},
                            SyntheticWeightInitialization::noise);
  }

  // Without autograd, as Python's weight.data.clamp_().
  void clamp_in_place(Value weight) {
    const double most = *altup_.clip;
    const auto run = [most](program::Stack& stack) {
      stack = {stack.at(0).toTensor().variable_data().clamp_(-most, most)};
    };
    emit_.call({"aten::clamp_", nullptr, run}, {weight}, 1);
  }

  Value clamped(Value weight) {
    return altup_.clip ? emit_.op("aten::clamp", "", {weight, -*altup_.clip, *altup_.clip}) : weight;
  }

  Value permuted(Value x, const std::vector<int64_t>& order) { return emit_.op("aten::permute", "", {x, order}); }

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  const model::TransformersConfig& config_;
  const model::AltupConfig& altup_;
  std::string path_;
};

}  // namespace

Value write_altup_streams(DecoderOpEmitter& parts, Value x) { return AltupWriter(parts).streams(x); }

Value write_altup_mean(DecoderOpEmitter& parts, Value streams) { return AltupWriter(parts).mean(streams); }

Value write_altup_prediction(DecoderOpEmitter& parts, Value streams, const std::string& layer) {
  return AltupWriter(parts, layer).prediction(streams);
}

Value write_altup_correction(DecoderOpEmitter& parts, Value predictions, Value activated, const std::string& layer) {
  return AltupWriter(parts, layer).correction(predictions, activated);
}

Value active_stream(DecoderOpEmitter& parts, Value streams) { return AltupWriter(parts).active(streams); }

void add_layer_input(DecoderOpEmitter& parts, Value streams, Value input, const std::string& layer) {
  ProgramEmitter& emit = parts.emit();
  const Value y = write_layer_input(parts, AltupWriter(parts, layer).scaled_copy(streams), input, layer);
  const auto others = [&] {
    return emit.op("aten::slice", "Tensor", {streams, 0, 1, std::numeric_limits<int64_t>::max(), 1});
  };
  const Value sum = others();
  emit.op("aten::add_", "Tensor", {sum, y});
  emit.op("aten::copy_", "", {others(), sum});  // Python's x[1:] += y stores its result once more
}

Value write_laurel(DecoderOpEmitter& parts, Value x, const std::string& layer) {
  const std::string path = layer + ".laurel";
  const int64_t hidden = parts.config().hidden, rank = parts.config().altup->laurel_rank;
  const ProgramEmitter::InRegion region(parts.emit(), path, parts.type("TextLaurelBlock"));
  const Value narrow = parts.linear(x, path + ".linear_left", hidden, rank, /*bias=*/false);
  const Value y = parts.linear(narrow, path + ".linear_right", rank, hidden, /*bias=*/false);
  return parts.plus(x, parts.norm(y, path + ".post_laurel_norm", hidden));
}

}  // namespace memtune::frontend
