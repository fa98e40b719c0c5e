#include "core/model/frontend/transformers/state_space.h"

#include <ATen/ATen.h>

#include <limits>

#include "core/model/frontend/transformers/causal_convolution_config.h"
#include "core/model/frontend/transformers/chunks.h"

namespace memtune::frontend {
namespace {

using c10::IValue;

constexpr int64_t kAllToEnd = std::numeric_limits<int64_t>::max();

class StateSpaceWriter {
 public:
  StateSpaceWriter(DecoderOpEmitter& parts, std::string path)
      : parts_(parts),
        emit_(parts.emit()),
        config_(parts.config()),
        space_(*parts.config().state_space),
        path_(std::move(path)) {}

  Value write(Value x) {
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type("Mixer"));
    const int64_t inner = config_.heads * config_.head_width, states = space_.groups * space_.state;
    const int64_t channels = inner + 2 * states;
    const Value all =
        parts_.linear(x, path_ + ".in_proj", config_.hidden, inner + channels + config_.heads, config_.query_bias);
    const Value logarithm = parts_.parameter(path_ + ".A_log", {config_.heads}, SyntheticWeightInitialization::zeros);
    const Value rate = emit_.op("aten::neg", "", {exp(parts_.cast(logarithm, at::kFloat))});
    const Values three = split(all, {inner, channels, config_.heads});
    const Value mixed = emit_.op("aten::transpose", "int", {three[1], 1, 2});
    const Value convolved = write_causal_convolution(
        parts_, mixed, {path_ + ".conv1d", channels, space_.kernel, space_.convolution_bias, /*activated=*/true});
    const Values parted = split(emit_.op("aten::transpose", "int", {convolved, 1, 2}), {inner, states, states});
    const auto viewed = [&](Value of, int64_t heads, int64_t width) {
      return emit_.op("aten::view", "", {of, parts_.shape({heads, width})});
    };
    const Value values = viewed(parted[0], config_.heads, config_.head_width);
    const Value in = viewed(parted[1], space_.groups, space_.state);
    const Value out = viewed(parted[2], space_.groups, space_.state);
    const Value y = parts_.reshaped(scanned(values, three[2], rate, in, out), parts_.shape({-1}));
    return parts_.linear(parts_.like(gated_norm(y, three[0], inner), x), path_ + ".out_proj", inner, config_.hidden,
                         config_.query_bias);
  }

 private:
  // https://arxiv.org/abs/2405.21060: `rate` is A, `in` B and `out` C. All in float32.
  Value scanned(Value values, Value step, Value rate, Value in, Value out) {
    const Value bias = parts_.parameter(path_ + ".dt_bias", {config_.heads}, SyntheticWeightInitialization::ones);
    step = emit_.op("aten::softplus", "", {parts_.plus(step, parts_.like(bias, step))});
    step = emit_.op("aten::clamp", "", {step, space_.least_step, space_.most_step});
    values = parts_.cast(values, at::kFloat);
    in = of_all_heads(in);
    out = of_all_heads(out);
    const Value missing = write_missing_tokens(parts_, space_.chunk);
    const Value skipped = parts_.parameter(path_ + ".D", {config_.heads}, SyntheticWeightInitialization::ones);
    const Value skip = unsqueezed(skipped, 1);
    const Value past = parts_.multiply(skip, padded(values, missing));
    values = parts_.multiply(values, parts_.cast(unsqueezed(step, 3), at::kFloat));
    rate = parts_.multiply(rate, parts_.cast(step, at::kFloat));
    values = by_chunk(padded(values, missing), {config_.heads, config_.head_width});
    rate = by_chunk(write_padding(parts_, rate, {zero(), zero(), zero(), missing, zero(), zero()}), {config_.heads});
    in = by_chunk(padded(in, missing), {config_.heads, space_.state});
    out = by_chunk(padded(out, missing), {config_.heads, space_.state});
    rate = permuted(rate, {0, 3, 1, 2});
    const Value sum = emit_.op("aten::cumsum", "", {rate, -1});
    const Value inside = within_chunks(values, rate, in, out);
    const Value between = between_chunks(values, sum, in, out);
    const Value y = reshaped(parts_.plus(inside, between), {-1, config_.heads, config_.head_width});
    return slice(parts_.plus(y, past), 1, 0, parts_.length());
  }

  Value within_chunks(Value values, Value rate, Value in, Value out) {
    const Value decay = exp(segment_sums(rate, 4));
    const Value products = summed(parts_.multiply(unsqueezed(out, 3), unsqueezed(in, 2)), -1);
    const Value by_products = unsqueezed(products, 5);
    const Value by_decay = unsqueezed(permuted(decay, {0, 2, 3, 4, 1}), 5);
    const Value weights = summed(parts_.multiply(by_products, by_decay), -1);
    const Value wide = unsqueezed(weights, 5);
    return summed(parts_.multiply(wide, unsqueezed(values, 2)), 3);
  }

  // From the states at the begin of each chunk.
  Value between_chunks(Value values, Value sum, Value in, Value out) {
    const Value last = slice(sum, 3, -1, kAllToEnd);
    const Value to_end = exp(emit_.op("aten::sub", "Tensor", {last, sum}));
    const Value decayed = parts_.multiply(in, unsqueezed(permuted(to_end, {0, -2, -1, 1}), 4));
    const Value wide_in = unsqueezed(decayed, 4);
    const Value own = summed(parts_.multiply(wide_in, unsqueezed(values, 5)), 2);
    const Value before = emit_.op("aten::zeros_like", "", {slice(own, 1, 0, 1)});
    const Value states = emit_.op("aten::cat", "", {emit_.list(c10::ListType::ofTensors(), {before, own}), 1});
    const Value whole =
        write_padding(parts_, emit_.op("aten::select", "int", {sum, 3, -1}), {emit_.constant(int64_t{1}), zero()});
    const Value over = emit_.op("aten::transpose", "int", {exp(segment_sums(whole, 3)), 1, 3});
    const Value wide_over = unsqueezed(unsqueezed(over, 4), 5);
    const Value carried = summed(parts_.multiply(wide_over, unsqueezed(states, 2)), 1);
    const Value at_begin = slice(carried, 1, 0, -1);
    const Value from_begin = exp(sum);
    const Value wide_out = unsqueezed(out, 4);
    const Value read = parts_.multiply(wide_out, unsqueezed(at_begin, 2));
    const Value plain = summed(read, -1);
    return parts_.multiply(plain, unsqueezed(permuted(from_begin, {0, 2, 3, 1}), 4));
  }

  // Of each pair of places along the last dimension: the sum after the second up to the first.
  Value segment_sums(Value x, size_t dims) {
    const Value size = emit_.op("aten::size", "int", {x, -1});
    const auto lower = [&](int64_t diagonal) {
      const Value square = emit_.list(c10::ListType::ofInts(), {size, size});
      const Value ones = emit_.op("aten::ones", "", {square, at::kBool, IValue(), parts_.device(), false});
      return emit_.op("aten::tril", "", {ones, diagonal});
    };
    const auto masked = [&](Value of, Value kept, double other) {
      return emit_.op("aten::masked_fill", "Scalar", {of, emit_.op("aten::bitwise_not", "", {kept}), other});
    };
    Values sizes(dims, emit_.constant(int64_t{-1}));
    sizes.push_back(size);
    const Value wide = emit_.op("aten::expand", "", {unsqueezed(x, -1), emit_.list(c10::ListType::ofInts(), sizes)});
    const Value sums = emit_.op("aten::cumsum", "", {masked(wide, lower(-1), 0), -2});
    return masked(sums, lower(0), -std::numeric_limits<double>::infinity());
  }

  Value gated_norm(Value x, Value gate, int64_t width) {
    const std::string path = path_ + ".norm";
    const ProgramEmitter::InRegion region(emit_, path, "MambaRMSNormGated");
    const Value weight = parts_.parameter(path + ".weight", {width}, SyntheticWeightInitialization::ones);
    const Value open = emit_.op("aten::silu", "", {parts_.cast(gate, at::kFloat)});
    const Value gated = parts_.multiply(parts_.cast(x, at::kFloat), open);
    return parts_.multiply(weight, parts_.like(parts_.of_unit_mean_square(gated, config_.epsilon), x));
  }

  Value of_all_heads(Value x) {
    const Value in_float = parts_.cast(x, at::kFloat);
    return emit_.op("aten::repeat_interleave", "self_int", {in_float, config_.heads / space_.groups, 2, config_.heads});
  }
  Value padded(Value x, Value missing) {
    return write_padding(parts_, x, {zero(), zero(), zero(), zero(), zero(), missing, zero(), zero()});
  }
  Value by_chunk(Value x, std::vector<int64_t> rest) {
    rest.insert(rest.begin(), {-1, space_.chunk});
    return reshaped(x, rest);
  }
  Value reshaped(Value x, const std::vector<int64_t>& rest) {  // [batch, rest...]
    Values sizes = {parts_.batch()};
    for (const int64_t size : rest) sizes.push_back(emit_.constant(size));
    return parts_.reshaped(x, emit_.list(c10::ListType::ofInts(), sizes));
  }
  Values split(Value x, const std::vector<int64_t>& sizes) {
    return emit_.unpack_list(emit_.op("aten::split_with_sizes", "", {x, sizes, -1}), sizes.size());
  }
  Value slice(Value x, int64_t dim, ValueOrConstantOpArgument begin, ValueOrConstantOpArgument end) {
    return emit_.op("aten::slice", "Tensor", {x, dim, std::move(begin), std::move(end), 1});
  }
  Value summed(Value x, int64_t dim) { return emit_.op("aten::sum", "dim_IntList", {x, std::vector<int64_t>{dim}}); }
  Value permuted(Value x, const std::vector<int64_t>& order) { return emit_.op("aten::permute", "", {x, order}); }
  Value unsqueezed(Value x, int64_t dim) { return emit_.op("aten::unsqueeze", "", {x, dim}); }
  Value exp(Value x) { return emit_.op("aten::exp", "", {x}); }
  Value zero() { return emit_.constant(int64_t{0}); }

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  const model::TransformersConfig& config_;
  const model::StateSpaceConfig& space_;
  std::string path_;
};

}  // namespace

Value write_state_space_mixer(DecoderOpEmitter& parts, Value x, const std::string& path) {
  return StateSpaceWriter(parts, path).write(x);
}

}  // namespace memtune::frontend
