#include "core/model/frontend/transformers/older_attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "core/model/frontend/transformers/attention_mask.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using model::EagerAttentionScoreFormula;

constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

class OlderAttention {
 public:
  OlderAttention(DecoderOpEmitter& parts, std::string path, const AttentionMaskWindowAndBias& seen)
      : parts_(parts), emit_(parts.emit()), config_(parts.config()), path_(std::move(path)), seen_(seen) {}

  Value write(Value q, Value k, Value v) {
    const EagerAttentionScoreFormula kind = parts_.family().scoring;
    if (kind == EagerAttentionScoreFormula::bias_product || kind == EagerAttentionScoreFormula::bounded)
      return in_rows(q, k, v);
    Value scores = kind == EagerAttentionScoreFormula::biased ? biased(q, k) : in_float(q, k);
    scores = emit_.op("aten::softmax", "int", {scores, -1});
    return emit_.op("aten::matmul", "", {parts_.dropped(parts_.like(scores, v), config_.attention_dropout), v});
  }

 private:
  Value in_float(Value q, Value k) {
    const Value queries = parts_.cast(q, at::kFloat), keys = parts_.cast(k, at::kFloat);
    const Value products = emit_.op("aten::matmul", "", {queries, turned(keys)});
    if (parts_.family().scoring == EagerAttentionScoreFormula::seen_by_table)
      return parts_.plus(seen_by_table(products), *seen_.mask);
    const auto divided = [&](Value x) { return emit_.op("aten::div", "Scalar", {x, std::sqrt(config_.head_width)}); };
    if (parts_.family().scoring == EagerAttentionScoreFormula::masked_first)
      return divided(parts_.plus(products, *seen_.mask));
    return parts_.plus(divided(products), *seen_.mask);
  }

  // The table is a part of each layer's attention.
  Value seen_by_table(Value products) {
    const int64_t rows = config_.positions, window = config_.table_windows[seen_.layer];
    at::Tensor table = at::ones({rows, rows}, at::TensorOptions(at::kBool)).tril();
    if (window > 0) table = table.bitwise_xor(table.tril(-window));
    Value part = emit_.buffer(path_ + ".bias", table.view({1, 1, rows, rows}).to(parts_.device()));
    for (const int64_t dim : {2, 3}) part = emit_.op("aten::slice", "Tensor", {part, dim, 0, parts_.length(), 1});
    const Value hidden =
        emit_.constant(at::scalar_tensor(lowest_of(at::kFloat), at::TensorOptions(at::kFloat).device(parts_.device())));
    return emit_.op("aten::where", "self", {part, products, hidden});
  }

  Value biased(Value q, Value k) {
    const Value products = emit_.op("aten::matmul", "", {q, turned(k)});
    const Value back = parts_.computed("aten::neg", parts_.length(), [](int64_t length) { return -length; });
    const Value bias = emit_.op("aten::slice", "Tensor", {*seen_.bias, 2, back, kLast, 1});
    const Value scores = parts_.plus(parts_.times(products, config_.attention_scale), bias);
    const Value masked = emit_.op("aten::masked_fill", "Scalar", {scores, *seen_.mask, lowest_of(parts_.dtype())});
    return parts_.cast(masked, at::kFloat);
  }

  Value in_rows(Value q, Value k, Value v) {
    const bool bounded = parts_.family().scoring == EagerAttentionScoreFormula::bounded;
    const auto flat = [&](Value x) { return parts_.reshaped(x, rows_by(config_.head_width)); };
    const Value queries = flat(q), keys = flat(k), values = flat(v);
    const Value flipped = emit_.op("aten::transpose", "int", {keys, 1, 2});
    const Value products =
        bounded ? emit_.op("aten::bmm", "", {queries, flipped})
                : emit_.op("aten::baddbmm", "", {*seen_.bias, queries, flipped, 1.0, config_.attention_scale});
    Value scores = parts_.plus(by_head(products, parts_.length()), *seen_.mask);
    if (bounded) {
      const Value least = emit_.op(
          "aten::full", "", {std::vector<int64_t>{}, lowest_of(parts_.dtype()), at::kFloat, IValue(), parts_.device()});
      scores = emit_.op("aten::max", "other", {scores, least});
    }
    const bool in_float = !bounded || parts_.dtype() == at::kHalf;
    const ValueOrConstantOpArgument type =
        in_float ? ValueOrConstantOpArgument(at::kFloat) : ValueOrConstantOpArgument(IValue());
    Value part = emit_.op("aten::softmax", "int", {scores, -1, type});
    if (in_float) part = parts_.like(part, queries);
    const Value weights = parts_.dropped(part, config_.attention_dropout);
    const Value sum = emit_.op("aten::bmm", "", {emit_.op("aten::view", "", {weights, rows_by_length()}), values});
    return by_head(sum, emit_.constant(config_.head_width));
  }

  Value turned(Value x) { return emit_.op("aten::transpose", "int", {x, -1, -2}); }
  Value rows_by(int64_t width) {
    const Value all = emit_.constant(int64_t{-1});
    return emit_.list(c10::ListType::ofInts(), {all, parts_.length(), emit_.constant(width)});
  }
  Value rows_by_length() {
    const Value all = emit_.constant(int64_t{-1});
    return emit_.list(c10::ListType::ofInts(), {all, parts_.length(), parts_.length()});
  }
  Value by_head(Value x, Value width) {
    const Value heads = emit_.constant(config_.heads);
    return emit_.op("aten::view", "",
                    {x, emit_.list(c10::ListType::ofInts(), {parts_.batch(), heads, parts_.length(), width})});
  }

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  const model::TransformersConfig& config_;
  std::string path_;
  const AttentionMaskWindowAndBias& seen_;
};

// Sines, then cosines, of each position.
at::Tensor rotary_table(int64_t rows, int64_t width) {
  const at::Tensor parts = at::arange(0, width, 2, at::kLong) / width;
  const at::Tensor frequencies = at::pow(10000, parts).reciprocal();
  const at::Tensor angles = at::arange(rows, at::kFloat).unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({angles.sin(), angles.cos()}, 1);
}

class TableRotation {
 public:
  TableRotation(DecoderOpEmitter& parts, std::string path)
      : parts_(parts), emit_(parts.emit()), config_(parts.config()), path_(std::move(path)) {}

  std::array<Value, 3> write(Value x, Value positions) {
    const bool quarters = parts_.family().projections == model::QkvLayout::joined_by_quarter;
    const auto [q, k, v] = quarters ? by_quarter(x) : apart(x);
    const Value values = heads_first(v);
    const auto [sine, cosine] = taken(positions, q);
    const Value keys = turned(k, sine, cosine), queries = turned(q, sine, cosine);
    const Value first = heads_first(keys);
    return {heads_first(queries), first, values};
  }

 private:
  std::array<Value, 3> apart(Value x) {
    const auto one = [&](const char* name) {
      return parts_.linear(x, path_ + name, config_.hidden, config_.hidden, config_.query_bias);
    };
    const Value q = one(".q_proj"), k = one(".k_proj"), v = one(".v_proj");
    const auto viewed = [&](Value y) {
      return emit_.op("aten::view", "", {y, parts_.shape({config_.heads, config_.head_width})});
    };
    const Value queries = viewed(q), keys = viewed(k);
    return {queries, keys, viewed(v)};
  }

  std::array<Value, 3> by_quarter(Value x) {
    constexpr int64_t kParts = 4;
    const Value all = parts_.linear(x, path_ + ".qkv_proj", config_.hidden, 3 * config_.hidden, config_.query_bias);
    const Value quarters = parts_.reshaped(all, parts_.shape({kParts, -1}));
    const Values three =
        emit_.unpack_list(emit_.op("aten::split", "Tensor", {quarters, config_.hidden / kParts, -1}), 3);
    const auto heads = [&](Value y) {
      const Value each = parts_.reshaped(y, parts_.shape({kParts, config_.heads / kParts, config_.head_width}));
      return parts_.reshaped(each, parts_.shape({-1, config_.head_width}));
    };
    const Value queries = heads(three[0]), keys = heads(three[2]);
    return {queries, keys, heads(three[1])};
  }

  // Sine and cosine, [1, length, width / 2].
  std::pair<Value, Value> taken(Value positions, Value x) {
    const int64_t width = config_.table_width;
    const Value table =
        emit_.buffer(path_ + ".embed_positions", rotary_table(config_.positions, width).to(parts_.device()));
    Value both;
    if (parts_.family().table == model::OlderDecoderPositionEncoding::rotary_in_float) {
      const Value indices = emit_.list(c10::ListType::create(c10::OptionalType::ofTensor()), {positions});
      both = emit_.op("aten::index", "Tensor", {table, indices});
    } else {
      const auto repeated = [&](Value y, std::vector<int64_t> times) {
        return emit_.op("aten::repeat", "", {y, std::move(times)});
      };
      const Value each = repeated(table, {1, 1, 1});
      const Value index = repeated(emit_.op("aten::unsqueeze", "", {positions, -1}), {1, 1, width});
      both = parts_.like(emit_.op("aten::gather", "", {each, 1, index}), x);
    }
    const Values two = emit_.unpack_list(emit_.op("aten::split", "Tensor", {both, width / 2, -1}), 2);
    return {two[0], two[1]};
  }

  Value turned(Value x, Value sine, Value cosine) {
    const auto part = [&](int64_t begin, int64_t end) {
      return emit_.op("aten::slice", "Tensor", {x, 3, begin, end, 1});
    };
    const Value turning = part(0, config_.table_width), rest = part(config_.table_width, kLast);
    const auto doubled = [&](Value y) {
      return emit_.op("aten::repeat_interleave", "self_int", {emit_.op("aten::unsqueeze", "", {y, 2}), 2, 3});
    };
    const Value wide_sine = doubled(sine), wide_cosine = doubled(cosine);
    const Value straight = parts_.multiply(turning, wide_cosine);
    const auto every_other = [&](int64_t from) {
      return emit_.op("aten::slice", "Tensor", {turning, 3, from, kLast, 2});
    };
    const Value first = every_other(0), second = every_other(1);
    const Value pair = emit_.list(c10::ListType::ofTensors(), {emit_.op("aten::neg", "", {second}), first});
    const Value swapped = emit_.op("aten::flatten", "using_ints", {emit_.op("aten::stack", "", {pair, -1}), -2});
    const Value rotated = parts_.plus(straight, parts_.multiply(swapped, wide_sine));
    return emit_.op("aten::cat", "", {emit_.list(c10::ListType::ofTensors(), {rotated, rest}), -1});
  }

  Value heads_first(Value x) { return emit_.op("aten::transpose", "int", {x, 1, 2}); }

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  const model::TransformersConfig& config_;
  std::string path_;
};

int64_t power_of_two_from(int64_t count) {
  int64_t power = 1;
  while (power < count) power *= 2;
  return power;
}

Value counted(DecoderOpEmitter& parts, int64_t begin, int64_t end, int64_t step, at::ScalarType type) {
  return parts.emit().op("aten::arange", "start_step", {begin, end, step, type, IValue(), parts.device()});
}

// Powers of 2 ** -(8 / heads) for each head; for other numbers of heads than powers of two, of two bases.
Value slopes_of_bloom(DecoderOpEmitter& parts) {
  ProgramEmitter& emit = parts.emit();
  const int64_t heads = parts.config().heads, next = power_of_two_from(heads);
  const int64_t power = next == heads ? heads : next / 2;
  const auto powers = [&](int64_t of, int64_t end, int64_t step) {
    const double base = std::pow(2.0, -std::pow(2.0, -(std::log2(static_cast<double>(of)) - 3)));
    const Value full = emit.op("aten::full", "", {std::vector<int64_t>{}, base, at::kFloat, IValue(), parts.device()});
    return emit.op("aten::pow", "Tensor_Tensor", {full, counted(parts, 1, end, step, at::kInt)});
  };
  const Value first = powers(power, 1 + power, 1);
  if (power == heads) return first;
  const int64_t rest = std::min(power, heads - power);
  const Value second = powers(2 * power, 1 + 2 * rest, 2);
  return emit.op("aten::cat", "", {emit.list(c10::ListType::ofTensors(), {first, second})});
}

}  // namespace

Value write_older_attention(DecoderOpEmitter& parts, const std::array<Value, 3>& qkv, const std::string& path,
                            const AttentionMaskWindowAndBias& seen) {
  return OlderAttention(parts, path, seen).write(qkv[0], qkv[1], qkv[2]);
}

std::array<Value, 3> write_table_projections(DecoderOpEmitter& parts, Value x, const std::string& path,
                                             Value positions) {
  return TableRotation(parts, path).write(x, positions);
}

Value write_biases(DecoderOpEmitter& parts) {
  ProgramEmitter& emit = parts.emit();
  const int64_t heads = parts.config().heads, rows = parts.config().positions, power = power_of_two_from(heads);
  const Value places =
      emit.op("aten::view", "", {counted(parts, 1 - rows, 1, 1, at::kInt), std::vector<int64_t>{1, 1, 1, rows}});
  Value base = parts.cast(counted(parts, 1, power + 1, 1, at::kLong), at::kFloat);
  base = parts.times(base, 8.0 / static_cast<double>(power));
  const Value inverse = emit.op("aten::reciprocal", "", {emit.op("aten::pow", "Scalar", {2, base})});
  Value slopes = emit.op("aten::view", "", {parts.times(inverse, 1.0), std::vector<int64_t>{1, power, 1, 1}});
  if (power != heads) {
    const auto every_other = [&](int64_t from) {
      return emit.op("aten::slice", "Tensor", {slopes, 1, from, kLast, 2});
    };
    const Value odd = every_other(1), even = every_other(0);
    const Value all = emit.op("aten::cat", "", {emit.list(c10::ListType::ofTensors(), {odd, even}), 1});
    slopes = emit.op("aten::slice", "Tensor", {all, 1, 0, heads, 1});
  }
  return emit.op("aten::squeeze", "dim", {parts.multiply(places, slopes), 0});
}

Value write_biases_by_mask(DecoderOpEmitter& parts, Value mask) {
  ProgramEmitter& emit = parts.emit();
  const Value slopes = slopes_of_bloom(parts);
  const Value from_zero = emit.op("aten::sub", "Scalar", {emit.op("aten::cumsum", "", {mask, -1, IValue()}), 1});
  const Value places = emit.op("aten::unsqueeze", "", {parts.multiply(from_zero, mask), 1});
  const Value biases = parts.multiply(emit.op("aten::unsqueeze", "", {slopes, -1}), places);
  const Value shape =
      emit.list(c10::ListType::ofInts(), {emit.constant(int64_t{-1}), emit.constant(int64_t{1}), parts.length()});
  return parts.cast(parts.reshaped(biases, shape), parts.dtype());
}

Value write_sinusoids(DecoderOpEmitter& parts, const std::string& path, Value positions) {
  ProgramEmitter& emit = parts.emit();
  const model::TransformersConfig& config = parts.config();
  const int64_t rows = config.positions + parts.family().position_offset, half = config.hidden / 2;
  const double step = std::log(10000.0) / static_cast<double>(half - 1);
  const at::Tensor frequencies = at::exp(at::arange(half, at::kFloat) * -step);
  const at::Tensor angles = at::arange(rows, at::kFloat).unsqueeze(1) * frequencies.unsqueeze(0);
  at::Tensor table = at::constant_pad_nd(at::cat({angles.sin(), angles.cos()}, 1), {0, config.hidden % 2});
  if (config.padding && *config.padding < rows) table[*config.padding].zero_();
  const ProgramEmitter::InRegion region(emit, path, parts.type("SinusoidalPositionalEmbedding"));
  const Value weights =
      emit.buffer(path + ".weights", table.to(at::TensorOptions(parts.dtype()).device(parts.device())));
  const Value ids = emit.op("aten::add", "Scalar", {positions, parts.family().position_offset});
  const Value flat = emit.op("aten::view", "", {ids, std::vector<int64_t>{-1}});
  const Value taken = emit.op("aten::index_select", "", {weights, 0, flat});
  return emit.op("aten::unsqueeze", "", {taken, 0});
}

Value write_difference(DecoderOpEmitter& parts, const std::array<Value, 2>& attended, Value queries,
                       const std::string& path, int64_t layer) {
  ProgramEmitter& emit = parts.emit();
  const int64_t width = parts.config().head_width;
  const double start = 0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(layer));
  const Value all = emit.op("aten::cat", "", {emit.list(c10::ListType::ofTensors(), {attended[0], attended[1]}), -1});
  const Values two = emit.unpack_list(emit.op("aten::chunk", "", {all, 2, 2}), 2);
  const auto grown = [&](const std::string& number) {
    const Value q = parts.parameter(path + ".lambda_q" + number, {width}, SyntheticWeightInitialization::noise);
    const Value k = parts.parameter(path + ".lambda_k" + number, {width}, SyntheticWeightInitialization::noise);
    const Value sum =
        emit.op("aten::sum", "dim_IntList", {parts.multiply(q, k), std::vector<int64_t>{-1}, false, at::kFloat});
    return parts.like(emit.op("aten::exp", "", {sum}), queries);
  };
  const Value of_first = grown("1");
  const Value less = emit.op("aten::sub", "Tensor", {of_first, grown("2")});
  const Value part = emit.op("aten::add", "Scalar", {less, start});
  const Value difference = emit.op("aten::sub", "Tensor", {two[0], parts.multiply(part, two[1])});
  const ProgramEmitter::InRegion region(emit, path + ".groupnorm", "RMSNorm");
  const Value normed =
      emit.op("aten::rms_norm", "", {difference, std::vector<int64_t>{2 * width}, IValue(), parts.config().epsilon});
  return parts.times(normed, 1 - start);
}

}  // namespace memtune::frontend
