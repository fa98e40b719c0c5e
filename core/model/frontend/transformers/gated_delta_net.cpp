#include "core/model/frontend/transformers/gated_delta_net.h"

#include "core/model/frontend/transformers/causal_convolution_config.h"
#include "core/model/frontend/transformers/delta_rule.h"

namespace memtune::frontend {
namespace {

class GatedDeltaNetWriter {
 public:
  GatedDeltaNetWriter(DecoderOpEmitter& parts, std::string path)
      : parts_(parts), emit_(parts.emit()), net_(*parts.config().delta_net), path_(std::move(path)) {}

  Value write(Value x) {
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type("GatedDeltaNet"));
    const Projections in = net_.joined ? joined_projections(x) : projections(x);
    const CausalConvolutionConfig convolution{path_ + ".conv1d", 2 * keys() + values(), net_.kernel, /*bias=*/false,
                                              /*activated=*/true};
    const Value mixed = transposed(write_causal_convolution(parts_, in.mixed, convolution));
    const Values three = split(mixed, {keys(), keys(), values()}, -1);
    Value query = by_head(three[0], net_.key_width), key = by_head(three[1], net_.key_width);
    const Value value = by_head(three[2], net_.value_width);
    const Value beta = emit_.op("aten::sigmoid", "", {in.beta});
    const Value decay = decay_of(in.step);
    if (each() > 1) {
      query = repeated(query);
      key = repeated(key);
    }
    const Value y = write_delta_rule(parts_, {query, key, value, decay, beta},
                                     {net_.value_heads, net_.key_width, net_.value_width});
    const Value rows = in_rows(y), gates = in_rows(in.gate);
    const Value normed = parts_.reshaped(gated_norm(rows, gates), parts_.shape({-1}));
    return parts_.linear(normed, path_ + ".out_proj", values(), parts_.config().hidden, /*bias=*/false);
  }

 private:
  struct Projections {
    Value mixed;       // queries, keys and values, [batch, channels, length]
    Value gate;        // [batch, length, heads, width]
    Value beta, step;  // [batch, length, heads]
  };

  Projections projections(Value x) {
    const Value mixed = transposed(linear(x, "in_proj_qkv", 2 * keys() + values()));
    const Value gate = by_head(linear(x, "in_proj_z", values()), net_.value_width);
    const Value beta = linear(x, "in_proj_b", net_.value_heads);
    return {mixed, gate, beta, linear(x, "in_proj_a", net_.value_heads)};
  }

  // Query, key, values and gates of the first key head, then of the next.
  Projections joined_projections(Value x) {
    const int64_t width = net_.key_width, wide = each() * net_.value_width;
    const Value all = linear(x, "in_proj_qkvz", 2 * keys() + 2 * values());
    const Value both = linear(x, "in_proj_ba", 2 * net_.value_heads);
    const auto viewed = [&](Value y, int64_t size) {
      return emit_.op("aten::view", "", {y, parts_.shape({net_.key_heads, size})});
    };
    const Value by_key = viewed(all, 2 * width + 2 * wide), both_by_key = viewed(both, 2 * each());
    const Values four = split(by_key, {width, width, wide, wide}, 3), two = split(both_by_key, {each(), each()}, 3);
    const Value value = by_head(four[2], net_.value_width), gate = by_head(four[3], net_.value_width);
    const auto flat = [&](Value y, int64_t size) { return parts_.reshaped(y, parts_.shape({size})); };
    const Value beta = flat(two[0], net_.value_heads), step = flat(two[1], net_.value_heads);
    const Value queries = flat(four[0], -1), keys = flat(four[1], -1);
    const Value three = emit_.list(c10::ListType::ofTensors(), {queries, keys, flat(value, -1)});
    return {transposed(emit_.op("aten::cat", "", {three, -1})), gate, beta, step};
  }

  Value decay_of(Value step) {
    const Value rate = parts_.parameter(path_ + ".A_log", {net_.value_heads}, SyntheticWeightInitialization::zeros);
    const Value bias = parts_.parameter(path_ + ".dt_bias", {net_.value_heads}, SyntheticWeightInitialization::ones);
    const Value speed = emit_.op("aten::neg", "", {emit_.op("aten::exp", "", {parts_.cast(rate, at::kFloat)})});
    const Value time = emit_.op("aten::softplus", "", {parts_.plus(parts_.cast(step, at::kFloat), bias)});
    return parts_.multiply(speed, time);
  }

  Value gated_norm(Value x, Value gate) {
    const std::string path = path_ + ".norm";
    const ProgramEmitter::InRegion region(emit_, path, parts_.type("RMSNormGated"));
    const Value normed = parts_.of_unit_mean_square(parts_.cast(x, at::kFloat), parts_.config().epsilon);
    const Value weight = parts_.parameter(path + ".weight", {net_.value_width}, SyntheticWeightInitialization::ones);
    const Value scaled = parts_.multiply(weight, parts_.like(normed, x));
    const Value open = emit_.op("aten::silu", "", {parts_.cast(gate, at::kFloat)});
    return parts_.like(parts_.multiply(scaled, open), x);
  }

  Value linear(Value x, const char* name, int64_t out) {
    return parts_.linear(x, path_ + "." + name, parts_.config().hidden, out, /*bias=*/false);
  }
  Values split(Value x, const std::vector<int64_t>& sizes, int64_t dim) {
    return emit_.unpack_list(emit_.op("aten::split_with_sizes", "", {x, sizes, dim}), sizes.size());
  }
  Value by_head(Value x, int64_t width) { return parts_.reshaped(x, parts_.shape({-1, width})); }
  Value repeated(Value x) { return emit_.op("aten::repeat_interleave", "self_int", {x, each(), 2}); }
  Value in_rows(Value x) { return emit_.op("aten::reshape", "", {x, std::vector<int64_t>{-1, net_.value_width}}); }
  Value transposed(Value x) { return emit_.op("aten::transpose", "int", {x, 1, 2}); }

  int64_t keys() const { return net_.key_heads * net_.key_width; }
  int64_t values() const { return net_.value_heads * net_.value_width; }
  int64_t each() const { return net_.value_heads / net_.key_heads; }  // value heads of a key head

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  const model::DeltaNetConfig& net_;
  std::string path_;
};

}  // namespace

Value write_gated_delta_net(DecoderOpEmitter& parts, Value x, const std::string& layer) {
  return GatedDeltaNetWriter(parts, layer + ".linear_attn").write(x);
}

}  // namespace memtune::frontend
