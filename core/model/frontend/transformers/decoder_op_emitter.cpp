#include "core/model/frontend/transformers/decoder_op_emitter.h"

#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <cmath>
#include <numbers>

#include "core/model/ops/bloom_gelu.h"

namespace memtune::frontend {

using c10::IValue;
using model::NormKind;

DecoderOpEmitter::DecoderOpEmitter(program::Program& program, const model::TransformersConfig& config,
                                   TransformersWeightProvider& weights, at::TensorOptions options,
                                   const DecoderLoweringOptions& setting)
    : emit_(program),
      config_(config),
      weights_(weights),
      setting_(setting),
      dtype_(c10::typeMetaToScalarType(options.dtype())),
      device_(options.device()) {}

Value DecoderOpEmitter::shape(const std::vector<int64_t>& rest) {
  Values sizes = {batch_, length_};
  for (const int64_t size : rest) sizes.push_back(emit_.constant(size));
  return emit_.list(c10::ListType::ofInts(), sizes);
}

Value DecoderOpEmitter::parameter(const std::string& path, at::IntArrayRef shape,
                                  SyntheticWeightInitialization filling) {
  const auto [found, first] = parameters_.try_emplace(path);
  if (first) found->second = emit_.parameter(path, weights_.make(path, shape, filling));
  return found->second;
}

Value DecoderOpEmitter::parameter_in_float(const std::string& path, at::IntArrayRef shape,
                                           SyntheticWeightInitialization filling) {
  return emit_.parameter(path, weights_.make_in_float(path, shape, filling));
}

Value DecoderOpEmitter::expert_weights(const std::string& path, std::string_view name, at::IntArrayRef shape) {
  const model::FamilyMoeConventions& names = family().experts;
  const std::vector<std::string_view> stored =
      name == "down_proj" ? std::vector{names.down} : std::vector{names.gate, names.up};
  const std::string whole = path + "." + std::string(name);
  return emit_.parameter(whole, weights_.make_stacked(whole, shape, stored));
}

Value DecoderOpEmitter::stored_buffer(const std::string& path, at::IntArrayRef shape) {
  return emit_.buffer(path, weights_.make_buffer(path, shape, at::kFloat));
}

Value DecoderOpEmitter::stored_factor(const std::string& path) {
  return emit_.buffer(path, weights_.make_buffer(path, {1}, dtype_, 1));
}

Value DecoderOpEmitter::linear(Value x, const std::string& path, int64_t in, int64_t out, bool bias) {
  if (family().transposed_weights) return transposed_linear(x, path, in, out);
  const ProgramEmitter::InRegion region(emit_, path, family().products ? type("Linear") : "Linear");
  const Value weight = parameter(path + ".weight", {out, in}, SyntheticWeightInitialization::noise);
  if (family().products) {  // the bias is added by itself; without one the product has the bits of a linear layer
    const Value product = emit_.op("aten::linear", "", {x, weight});
    return bias ? plus(product, parameter(path + ".bias", {out}, SyntheticWeightInitialization::zeros)) : product;
  }
  if (!bias) return emit_.op("aten::linear", "", {x, weight});
  return emit_.op("aten::linear", "",
                  {x, weight, parameter(path + ".bias", {out}, SyntheticWeightInitialization::zeros)});
}

Value DecoderOpEmitter::transposed_linear(Value x, const std::string& path, int64_t in, int64_t out) {
  const ProgramEmitter::InRegion region(emit_, path, "Conv1D");
  const Value weight = parameter(path + ".weight", {in, out}, SyntheticWeightInitialization::noise);
  const Value bias = parameter(path + ".bias", {out}, SyntheticWeightInitialization::zeros);
  return emit_.op("aten::view", "", {emit_.op("aten::addmm", "", {bias, rows(x, in), weight}), shape({out})});
}

Value DecoderOpEmitter::norm(Value x, const std::string& path, int64_t width) {
  if (family().norm == NormKind::layer_unbiased) return layer_norm(x, path, width, /*bias=*/false);
  if (family().norm == NormKind::layer) return layer_norm(x, path, width, /*bias=*/true);
  if (family().norm == NormKind::layer_unweighted) return layer_norm_unweighted(x, path, width);
  if (family().norm == NormKind::layer_plus_one) return layer_norm_plus_one(x, path, width);
  return family().norm == NormKind::layer_in_float ? layer_norm_in_float(x, path, {width})
                                                   : rms_norm(x, path, width, config_.epsilon);
}

Value DecoderOpEmitter::layer_norm(Value x, const std::string& path, int64_t width, bool bias) {
  const ProgramEmitter::InRegion region(emit_, path, "LayerNorm");
  const Value weight = parameter(path + ".weight", {width}, SyntheticWeightInitialization::ones);
  const ValueOrConstantOpArgument added =
      bias ? ValueOrConstantOpArgument(parameter(path + ".bias", {width}, SyntheticWeightInitialization::zeros))
           : ValueOrConstantOpArgument(IValue());
  return emit_.op("aten::layer_norm", "", {x, std::vector<int64_t>{width}, weight, added, config_.epsilon, true});
}

Value DecoderOpEmitter::layer_norm_unweighted(Value x, const std::string& path, int64_t width) {
  const ProgramEmitter::InRegion region(emit_, path, type("LayerNorm"));
  const ValueOrConstantOpArgument none = IValue();
  const Value in_float = cast(x, at::kFloat);
  return like(
      emit_.op("aten::layer_norm", "", {in_float, std::vector<int64_t>{width}, none, none, config_.epsilon, true}), x);
}

// Under autocast of CUDA, which the meta device has too, its arguments are cast, not its result.
Value DecoderOpEmitter::layer_norm_plus_one(Value x, const std::string& path, int64_t width) {
  const ProgramEmitter::InRegion region(emit_, path, type("LayerNorm1P"));
  const Value weight = parameter(path + ".weight", {width}, SyntheticWeightInitialization::ones);
  const Value bias = parameter(path + ".bias", {width}, SyntheticWeightInitialization::zeros);
  const Value plus_one = emit_.op("aten::add", "Scalar", {weight, 1.0});
  const bool casts = setting_.autocast && !device_.is_cpu();
  const auto given = [&](Value of) { return casts ? cast(of, *setting_.autocast) : of; };
  const Value in = given(x), scale = given(plus_one), shift = given(bias);
  leave_autocast();
  const Value y =
      emit_.op("aten::layer_norm", "", {in, std::vector<int64_t>{width}, scale, shift, config_.epsilon, true});
  emit_.leave();
  return y;
}

Value DecoderOpEmitter::layer_norm_in_float(Value x, const std::string& path, at::IntArrayRef shape) {
  const ProgramEmitter::InRegion region(emit_, path, type("LayerNorm"));
  const Value weight = parameter(path + ".weight", shape, SyntheticWeightInitialization::ones);
  const Value in_float = cast(x, at::kFloat);
  const auto mean = [&](Value of) { return emit_.op("aten::mean", "dim", {of, std::vector<int64_t>{-1}, true}); };
  const auto less = [&](Value of, Value by) { return emit_.op("aten::sub", "Tensor", {of, by}); };
  const Value middle = mean(in_float);
  const Value variance = mean(emit_.op("aten::pow", "Tensor_Scalar", {less(in_float, middle), 2}));
  const Value centred = less(in_float, middle);
  const Value root = emit_.op("aten::rsqrt", "", {emit_.op("aten::add", "Scalar", {variance, config_.epsilon})});
  const Value normed = multiply(centred, root);
  return like(multiply(cast(weight, at::kFloat), normed), x);
}

Value DecoderOpEmitter::of_unit_mean_square(Value in_float, double epsilon) {
  const Value square = emit_.op("aten::pow", "Tensor_Scalar", {in_float, 2});
  const Value mean = emit_.op("aten::mean", "dim", {square, std::vector<int64_t>{-1}, true});
  const Value above = emit_.op("aten::add", "Scalar", {mean, epsilon});
  if (family().norm == NormKind::rms_by_power)
    return multiply(in_float, emit_.op("aten::pow", "Tensor_Scalar", {above, -0.5}));
  return multiply(in_float, emit_.op("aten::rsqrt", "", {above}));
}

Value DecoderOpEmitter::unweighted_norm(Value x, const std::string& path) {
  const ProgramEmitter::InRegion region(emit_, path, type("RMSNorm"));
  return like(of_unit_mean_square(cast(x, at::kFloat), config_.epsilon), x);
}

Value DecoderOpEmitter::rms_norm(Value x, const std::string& path, int64_t width, double epsilon) {
  const ProgramEmitter::InRegion region(emit_, path, type("RMSNorm"));
  const NormKind kind = family().norm;
  const bool plus_one = kind == NormKind::rms_plus_one;
  const Value weight = parameter(path + ".weight", {width},
                                 plus_one ? SyntheticWeightInitialization::zeros : SyntheticWeightInitialization::ones);
  const Value in_float = cast(x, at::kFloat);
  const Value normed = of_unit_mean_square(in_float, epsilon);
  if (kind == NormKind::rms) return multiply(weight, like(normed, x));
  if (kind == NormKind::rms_by_power) return like(multiply(normed, cast(weight, at::kFloat)), x);
  if (kind == NormKind::rms_float_weight) return like(multiply(cast(weight, at::kFloat), normed), x);
  if (!plus_one) return like(multiply(weight, normed), x);
  const Value scale = emit_.op("aten::add", "Scalar", {cast(weight, at::kFloat), 1.0});
  return like(multiply(normed, scale), x);
}

Value DecoderOpEmitter::activated(Value x, const std::string& path) {
  if (config_.activation == "xielu") return xielu(x, path);
  if (config_.activation == "bloom_gelu") return bloom_gelu(x);
  if (config_.activation == "silu") return emit_.op("aten::silu", "", {x});
  if (config_.activation == "relu") return emit_.op("aten::relu", "", {x});
  if (config_.activation == "relu2") return emit_.op("aten::square", "", {emit_.op("aten::relu", "", {x})});
  if (config_.activation == "gelu_new") return gelu_new(x);
  return emit_.op("aten::gelu", "", {x, std::string(config_.activation == "gelu" ? "none" : "tanh")});
}

Value DecoderOpEmitter::gelu_new(Value x) {
  const Value half = times(x, 0.5);
  const Value cube = times(emit_.op("aten::pow", "Tensor_Scalar", {x, 3.0}), 0.044715);
  const Value inner = times(plus(x, cube), std::sqrt(2 * std::numbers::inv_pi));
  return multiply(half, emit_.op("aten::add", "Scalar", {emit_.op("aten::tanh", "", {inner}), 1.0}));
}

Value DecoderOpEmitter::bloom_gelu(Value x) {
  static const c10::FunctionSchema schema = torch::jit::parseSchema("memtune::bloom_gelu(Tensor x) -> Tensor");
  const auto run = [](program::Stack& stack) { stack.back() = ops::bloom_gelu(stack.back().toTensor()); };
  return emit_.call({schema.name(), &schema, run}, {x}, 1)[0];
}

// transformers' XIELUActivation without its CUDA kernel.
Value DecoderOpEmitter::xielu(Value x, const std::string& path) {
  const ProgramEmitter::InRegion region(emit_, path, "XIELUActivation");
  const Value of_positive = parameter(path + ".alpha_p", {1}, SyntheticWeightInitialization::zeros);
  const Value of_negative = parameter(path + ".alpha_n", {1}, SyntheticWeightInitialization::zeros);
  const Value beta = emit_.buffer(path + ".beta", weights_.make_buffer(path + ".beta", {}, dtype_, 0.5));
  const Value eps = emit_.buffer(path + ".eps", weights_.make_buffer(path + ".eps", {}, dtype_, -1e-6));
  const auto softplus = [&](Value of) { return emit_.op("aten::softplus", "", {of}); };
  const Value alpha_p = softplus(of_positive), alpha_n = plus(beta, softplus(of_negative));
  const Value positive = emit_.op("aten::gt", "Scalar", {x, 0});
  const Value square = multiply(multiply(alpha_p, x), x);
  const Value above = plus(square, multiply(beta, x));
  const Value least = emit_.op("aten::min", "other", {x, eps});
  const Value curve = emit_.op("aten::sub", "Tensor", {emit_.op("aten::expm1", "", {least}), x});
  const Value scaled = multiply(curve, alpha_n);
  const Value below = plus(scaled, multiply(beta, x));
  return emit_.op("aten::where", "self", {positive, above, below});
}

void DecoderOpEmitter::leave_autocast() {
  const c10::DeviceType type = device_.is_cuda() ? c10::kCUDA : c10::kCPU;  // meta has no autocast
  emit_.enter_autocast(emit_.constant(c10::DeviceTypeName(type, true)), emit_.constant(false),
                       emit_.constant(at::kBFloat16), emit_.constant(true));
}

Value DecoderOpEmitter::computed(const char* name, Value size, std::function<int64_t(int64_t)> function) {
  const auto run = [function = std::move(function)](program::Stack& stack) {
    stack.back() = function(stack.back().toInt());
  };
  return emit_.call({name, nullptr, run}, {size}, 1)[0];
}

Value DecoderOpEmitter::dropped(Value x, double part) {
  return part > 0 ? emit_.op("aten::dropout", "", {x, part, true}) : x;
}

}  // namespace memtune::frontend
