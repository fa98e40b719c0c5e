#include "core/model/frontend/transformers/attention.h"

#include <ATen/ATen.h>

#include <array>
#include <limits>

#include "core/model/frontend/transformers/latent_projections.h"
#include "core/model/frontend/transformers/older_attention.h"
#include "core/model/frontend/transformers/rotary.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using model::QkvLayout;
using model::QueryKeyNorm;
using model::RotaryEmbeddingLayoutAndPrecision;

constexpr int64_t kWidestGroupedHead = 256;  // that transformers gives sdpa without repeating its keys
constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

class AttentionWriter {
 public:
  AttentionWriter(DecoderOpEmitter& parts, std::string path)
      : parts_(parts), emit_(parts.emit()), config_(parts.config()), family_(parts.family()), path_(std::move(path)) {}

  Value write(Value x, const TokenPositionsAndRotary& at, const AttentionMaskWindowAndBias& seen) {
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type("Attention"));
    if (config_.latent) {
      const auto [q, k, v] =
          write_latent_projections(parts_, x, path_, unsqueezed(at.turn->first), unsqueezed(at.turn->second));
      return out(attended(q, k, v, seen));
    }
    if (family_.turning == RotaryEmbeddingLayoutAndPrecision::complex) {
      const auto [q, k, v] = turned_as_complex(x, at);
      return out(attended(q, k, v, seen));
    }
    if (config_.table_width > 0) {
      const auto [q, k, v] = write_table_projections(parts_, x, path_, at.positions);
      return out(attended(q, k, v, seen));
    }
    auto [q, k, v] = projected(x);
    if (at.turn) {
      const std::pair<Value, Value> by = {unsqueezed(at.turn->first), unsqueezed(at.turn->second)};
      std::tie(q, k) = apply_rotary(parts_, q, k, by);
    }
    if (config_.query_norm && family_.query_norm == QueryKeyNorm::per_head_after_rotary) {
      q = parts_.norm(q, in(family_.modules.query_norm), config_.head_width);
      k = parts_.norm(k, in(family_.modules.key_norm), config_.head_width);
    }
    if (family_.differential) return out(difference(q, k, v, seen));
    if (family_.grown_queries) q = parts_.multiply(q, growth(at.positions, q));
    return out(attended(q, k, v, seen));
  }

  // Of a layer that shares keys and values. Rotates before heads come first.
  Value write(Value x, const TokenPositionsAndRotary& at, const AttentionMaskWindowAndBias& seen,
              const model::PerLayerConfigOverrides& layer, KeysAndValues& shared) {
    const ProgramEmitter::InRegion region(emit_, path_, parts_.type("Attention"));
    const auto turned = [&](Value y) {
      const auto wide = [&](Value table) { return emit_.op("aten::unsqueeze", "", {table, 2}); };
      return transposed(apply_rotary(parts_, y, {wide(at.turn->first), wide(at.turn->second)}));
    };
    const auto normed = [&](Value y, std::string_view norm) { return parts_.norm(y, in(norm), config_.head_width); };
    const Value q = turned(normed(viewed(projection(x, "q_proj", config_.heads)), family_.modules.query_norm));
    if (!layer.reuses_keys) {
      const Value keys = viewed(projection(x, "k_proj", config_.kv_heads));
      const Value values = layer.values_are_keys ? keys : viewed(projection(x, "v_proj", config_.kv_heads));
      const Value k = turned(normed(keys, family_.modules.key_norm));
      shared = {k, transposed(parts_.unweighted_norm(values, in("v_norm")))};
    }
    return out(attended(q, shared->first, shared->second, seen));
  }

 private:
  Value out(Value attended) {
    Value joined = parts_.reshaped(attended, parts_.shape({-1}));
    if (gate_) {
      joined = emit_.op("aten::contiguous", "", {joined});
      joined = parts_.multiply(joined, emit_.op("aten::sigmoid", "", {*gate_}));
    }
    const Value y = parts_.linear(joined, in(family_.modules.output), config_.heads * config_.value_width(),
                                  config_.hidden, config_.output_bias);
    return parts_.dropped(y, config_.attention_output_dropout);
  }

  Value attended(Value q, Value k, Value v, const AttentionMaskWindowAndBias& seen) {
    const AttentionImplementation how = parts_.setting().attention;
    if (how == AttentionImplementation::flash_varlen) return flash(q, k, v, seen);
    if (family_.scoring != model::EagerAttentionScoreFormula::scaled)
      return emit_.op("aten::contiguous", "", {transposed(write_older_attention(parts_, {q, k, v}, path_, seen))});
    if (family_.always_masked) return emit_.op("aten::contiguous", "", {transposed(masked(q, k, v, *seen.mask))});
    const Value o = how == AttentionImplementation::eager ? eager(q, repeated(k), repeated(v), *seen.mask)
                    : seen.mask                           ? masked(q, repeated(k), repeated(v), *seen.mask)
                                                          : causal(q, k, v);
    return emit_.op("aten::contiguous", "", {transposed(o)});
  }

  // Each half of the values goes to all heads.
  Value difference(Value q, Value k, Value v, const AttentionMaskWindowAndBias& seen) {
    const Values halves = emit_.unpack_list(emit_.op("aten::chunk", "", {v, 2, 1}), 2);
    const auto twice = [&](Value x) { return emit_.op("aten::repeat", "", {x, std::vector<int64_t>{1, 2, 1, 1}}); };
    const Value first = twice(halves[0]), second = twice(halves[1]);
    const Value of_first = attended(q, k, first, seen);
    return write_difference(parts_, {of_first, attended(q, k, second, seen)}, q, path_, seen.layer);
  }

  // The kernel's window does not count the query itself.
  Value flash(Value q, Value k, Value v, const AttentionMaskWindowAndBias& seen) {
    const auto in_rows = [&](Value x, int64_t heads) {
      const Value by_token = transposed(parts_.setting().autocast ? parts_.cast(x, *parts_.setting().autocast) : x);
      return emit_.op("aten::reshape", "", {by_token, std::vector<int64_t>{-1, heads, config_.head_width}});
    };
    const int64_t sequence = parts_.setting().sequence;
    const ValueOrConstantOpArgument longest =
        sequence > 0 ? ValueOrConstantOpArgument(sequence) : ValueOrConstantOpArgument(parts_.length());
    const IValue window = seen.window > 0 ? IValue(seen.window - 1) : IValue();
    const Value queries = in_rows(q, config_.heads), keys = in_rows(k, config_.kv_heads);
    const Value values = in_rows(v, config_.kv_heads);
    return emit_.op("aten::_flash_attention_forward", "",
                    {queries, keys, values, *seen.ends, *seen.ends, longest, longest, config_.attention_dropout,
                     /*is_causal=*/true, /*return_debug_mask=*/false, scale(), window, IValue()},
                    5)[0];
  }
  Value causal(Value q, Value k, Value v) {
    if (config_.head_width > kWidestGroupedHead) {
      k = repeated(k);
      v = repeated(v);
    }
    const bool grouped = config_.kv_heads < config_.heads && config_.head_width <= kWidestGroupedHead;
    return emit_.op("aten::scaled_dot_product_attention", "",
                    {q, k, v, IValue(), config_.attention_dropout, true, scale(), grouped});
  }
  Value masked(Value q, Value k, Value v, Value mask) {
    return emit_.op(
        "aten::scaled_dot_product_attention", "",
        {q, k, v, mask, config_.attention_dropout, false,
         family_.always_masked ? ValueOrConstantOpArgument(IValue()) : ValueOrConstantOpArgument(scale()), false});
  }
  Value eager(Value q, Value k, Value v, Value mask) {
    const Value products = emit_.op("aten::matmul", "", {q, emit_.op("aten::transpose", "int", {k, 2, 3})});
    Value scores = parts_.times(products, scale());
    if (config_.score_cap) {
      scores = emit_.op("aten::tanh", "", {emit_.op("aten::div", "Scalar", {scores, *config_.score_cap})});
      scores = parts_.times(scores, *config_.score_cap);
    }
    if (family_.sinks) return with_sinks(parts_.plus(scores, mask), q, v);
    const IValue type = family_.softmax_in_float ? IValue(at::kFloat) : IValue();
    const Value part = emit_.op("aten::softmax", "int", {parts_.plus(scores, mask), -1, type});
    const Value weights = parts_.dropped(parts_.cast(part, parts_.dtype()), config_.attention_dropout);
    return emit_.op("aten::matmul", "", {weights, v});
  }
  // A score of each head takes part in the softmax and is dropped after it.
  Value with_sinks(Value scores, Value q, Value v) {
    const Value sinks = parts_.parameter(in("sinks"), {config_.heads}, SyntheticWeightInitialization::noise);
    const Value shaped = emit_.op("aten::reshape", "", {sinks, std::vector<int64_t>{1, -1, 1, 1}});
    const Value sizes =
        emit_.list(c10::ListType::ofInts(), {emit_.op("aten::size", "int", {q, 0}), emit_.constant(-1),
                                             emit_.op("aten::size", "int", {q, -2}), emit_.constant(-1)});
    const Value wide = emit_.op("aten::expand", "", {shaped, sizes});
    const Value all = emit_.op("aten::cat", "", {emit_.list(c10::ListType::ofTensors(), {scores, wide}), -1});
    const Value most = emit_.op("aten::max", "dim", {all, -1, true}, 2)[0];
    const Value part =
        emit_.op("aten::softmax", "int", {emit_.op("aten::sub", "Tensor", {all, most}), -1, parts_.dtype()});
    const Value kept = emit_.op("aten::slice", "Tensor", {part, 3, 0, -1, 1});
    const Value weights = parts_.like(parts_.dropped(kept, config_.attention_dropout), v);
    return emit_.op("aten::matmul", "", {weights, v});
  }
  // Repeats keys or values of each group for all heads of the group.
  Value repeated(Value x) {
    if (config_.kv_heads == config_.heads) return x;
    const auto shaped = [&](std::vector<int64_t> heads) {
      Values sizes = {parts_.batch()};
      for (const int64_t size : heads) sizes.push_back(emit_.constant(size));
      sizes.insert(sizes.end(), {parts_.length(), emit_.constant(config_.head_width)});
      return emit_.list(c10::ListType::ofInts(), sizes);
    };
    const int64_t times = config_.heads / config_.kv_heads;
    const Value each = emit_.op("aten::unsqueeze", "", {x, 2});
    const Value wide = emit_.op("aten::expand", "", {each, shaped({config_.kv_heads, times})});
    return parts_.reshaped(wide, shaped({config_.heads}));
  }

  // Rotates before heads come first.
  std::array<Value, 3> turned_as_complex(Value x, const TokenPositionsAndRotary& at) {
    Value q = viewed(projection(x, "q_proj", config_.heads));
    Value k = viewed(projection(x, "k_proj", config_.kv_heads));
    const Value v = heads(projection(x, "v_proj", config_.kv_heads));
    if (at.turn) {
      const Value table = emit_.op("aten::unsqueeze", "", {at.turn->first, 2});
      q = rotate_as_complex(parts_, q, table, parts_.shape({config_.heads, -1, 2}));
      k = rotate_as_complex(parts_, k, table, parts_.shape({config_.kv_heads, -1, 2}));
    }
    if (at.turn && config_.query_norm) {
      q = of_unit_length(q);
      k = of_unit_length(k);
    }
    if (!at.turn && config_.query_temperature) q = parts_.like(parts_.multiply(q, temperature()), q);
    const Value by_head = transposed(q);
    return {by_head, transposed(k), v};
  }

  Value of_unit_length(Value x) {
    const ProgramEmitter::InRegion region(emit_, in("qk_norm"), parts_.type("L2Norm"));
    return parts_.like(parts_.of_unit_mean_square(parts_.cast(x, at::kFloat), config_.epsilon), x);
  }

  // [batch, length, 1, 1]
  Value temperature() {
    const Value counted = emit_.op("aten::arange", "", {parts_.length(), IValue(), IValue(), parts_.device(), false});
    const Value from_one = emit_.op("aten::add", "Scalar", {parts_.cast(counted, at::kFloat), 1.0});
    const Value periods = emit_.op("aten::div", "Scalar", {from_one, config_.query_period});
    const Value grown = emit_.op("aten::log1p", "", {emit_.op("aten::floor", "", {periods})});
    const Value scales = emit_.op("aten::add", "Scalar", {parts_.times(grown, *config_.query_temperature), 1.0});
    const Value one = emit_.constant(int64_t{1});
    const Value row =
        emit_.op("aten::view", "", {scales, emit_.list(c10::ListType::ofInts(), {one, parts_.length(), one, one})});
    return emit_.op("aten::expand", "", {row, parts_.shape({1, 1})});
  }

  // [1 or batch, 1, length, 1]
  Value growth(Value positions, Value queries) {
    const Value periods = emit_.op("aten::div", "Scalar", {positions, config_.query_period});
    const Value whole = emit_.op("aten::floor", "", {periods});
    const Value grown = emit_.op("aten::log", "", {emit_.op("aten::add", "Scalar", {whole, 1})});
    const Value scale = emit_.op("aten::add", "Scalar", {parts_.times(grown, config_.query_growth), 1});
    const Value row = emit_.op("aten::unsqueeze", "", {emit_.op("aten::unsqueeze", "", {scale, 1}), 3});
    return parts_.like(row, queries);
  }

  std::string in(std::string_view name) const { return path_ + "." + std::string(name); }
  Value transposed(Value x) { return emit_.op("aten::transpose", "int", {x, 1, 2}); }
  Value unsqueezed(Value x) { return emit_.op("aten::unsqueeze", "", {x, 1}); }

  std::array<Value, 3> projected(Value x) {
    switch (family_.projections) {
      case QkvLayout::joined:
      case QkvLayout::joined_and_split: return joined(x);
      case QkvLayout::joined_by_head: return config_.kv_heads == 1 ? joined_with_one_key(x) : joined_by_head(x);
      case QkvLayout::joined_by_head_and_normed: return joined_by_head_and_normed(x);
      case QkvLayout::joined_heads_with_one_key: return joined_heads_with_one_key(x);
      case QkvLayout::joined_by_group: return joined_by_group(x);
      case QkvLayout::joined_by_quarter:
      case QkvLayout::apart: break;
    }
    const bool late = family_.query_norm == QueryKeyNorm::whole ||
                      family_.query_norm == QueryKeyNorm::per_transposed_head ||
                      family_.query_norm == QueryKeyNorm::each_head;
    return late ? projected_then_normed(x) : normed_one_by_one(x);
  }

  // What multiplies scores.
  double scale() const { return family_.scaled_queries ? 1 : config_.attention_scale; }

  Value projection(Value x, const char* name, int64_t heads) {
    return parts_.linear(x, in(name), config_.hidden, heads * config_.head_width, config_.query_bias);
  }

  std::array<Value, 3> normed_one_by_one(Value x) {
    const auto one = [&](const char* name, std::string_view norm, int64_t count, bool scaled = false) {
      Value y = family_.gated_attention && name[0] == 'q' ? gated_queries(x) : projection(x, name, count);
      if (scaled) y = parts_.times(y, config_.attention_scale);
      y = viewed(y);
      if (config_.query_norm && !norm.empty()) y = normed_before_transpose(y, in(norm), count);
      return transposed(y);
    };
    const Value q = one("q_proj", family_.modules.query_norm, config_.heads, family_.scaled_queries);
    const Value k = one("k_proj", family_.modules.key_norm, config_.kv_heads);
    return {q, k, one("v_proj", "", config_.kv_heads)};
  }

  // Each head's queries and then its gates.
  Value gated_queries(Value x) {
    const Value both = projection(x, "q_proj", 2 * config_.heads);
    const Value by_head = emit_.op("aten::view", "", {both, parts_.shape({-1, 2 * config_.head_width})});
    const Values two = emit_.unpack_list(emit_.op("aten::chunk", "", {by_head, 2, -1}), 2);
    gate_ = parts_.reshaped(two[1], parts_.shape({-1}));
    return two[0];
  }

  Value normed_before_transpose(Value x, const std::string& path, int64_t count) {
    if (family_.query_norm == QueryKeyNorm::per_head_weights)
      return parts_.layer_norm_in_float(x, path, {count, config_.head_width});
    return family_.query_norm == QueryKeyNorm::per_head ? parts_.norm(x, path, config_.head_width) : x;
  }

  std::array<Value, 3> projected_then_normed(Value x) {
    if (family_.query_norm == QueryKeyNorm::whole) return normed_whole(x);
    Value q = heads(projection(x, "q_proj", config_.heads));
    Value k = heads(projection(x, "k_proj", config_.kv_heads));
    const Value v = heads(projection(x, "v_proj", config_.kv_heads));
    if (config_.query_norm) {
      q = normed_heads(q, in(family_.modules.query_norm), config_.heads);
      k = normed_heads(k, in(family_.modules.key_norm), config_.kv_heads);
    }
    return {q, k, v};
  }

  Value normed_heads(Value x, const std::string& path, int64_t count) {
    if (family_.query_norm == QueryKeyNorm::per_transposed_head) return parts_.norm(x, path, config_.head_width);
    const ProgramEmitter::InRegion region(emit_, path, parts_.type("LayerNormPerHead"));
    Values each = emit_.unpack_list(emit_.op("aten::split", "Tensor", {x, 1, 1}), count);
    for (int64_t i = 0; i < count; ++i)
      each[i] = parts_.layer_norm(each[i], path + ".norms." + std::to_string(i), config_.head_width, /*bias=*/false);
    return emit_.op("aten::cat", "", {emit_.list(c10::ListType::ofTensors(), each), 1});
  }

  std::array<Value, 3> normed_whole(Value x) {
    const auto normed = [&](const char* name, std::string_view norm, int64_t count) {
      return parts_.norm(projection(x, name, count), in(norm), count * config_.head_width);
    };
    const Value q = normed("q_proj", family_.modules.query_norm, config_.heads);
    const Value k = normed("k_proj", family_.modules.key_norm, config_.kv_heads);
    const Value v = projection(x, "v_proj", config_.kv_heads);
    return {heads(q), heads(k), heads(v)};
  }

  Value all_projected(Value x, int64_t width) {
    return parts_.linear(x, in(family_.modules.joined), config_.hidden, width, config_.query_bias);
  }

  std::array<Value, 3> joined(Value x) {
    const int64_t queries = config_.heads * config_.head_width, keys = config_.kv_heads * config_.head_width;
    Value all = all_projected(x, queries + 2 * keys);
    if (config_.clipped) all = emit_.op("aten::clamp", "", {all, -*config_.clipped, *config_.clipped});
    if (family_.projections == QkvLayout::joined_and_split) {
      const Values each = emit_.unpack_list(emit_.op("aten::split", "Tensor", {all, queries, 2}), 3);
      return {heads(each[0]), heads(each[1]), heads(each[2])};
    }
    const auto part = [&](int64_t begin, int64_t end) {
      return emit_.op("aten::slice", "Tensor", {all, 2, begin, end, 1});
    };
    const Value q = part(0, queries), k = part(queries, queries + keys), v = part(queries + keys, kEnd);
    return {heads(q), heads(k), heads(v)};
  }

  std::array<Value, 3> joined_by_head(Value x) {
    const int64_t width = 3 * config_.head_width;
    const Value all = all_projected(x, config_.heads * width);
    const Value each = transposed(emit_.op("aten::view", "", {all, parts_.shape({-1, width})}));
    const Values three = emit_.unpack_list(emit_.op("aten::chunk", "", {each, 3, -1}), 3);
    return {three[0], three[1], three[2]};
  }

  std::array<Value, 3> joined_by_head_and_normed(Value x) {
    const Value all = all_projected(x, 3 * config_.heads * config_.head_width);
    const Value each = emit_.op("aten::view", "", {all, parts_.shape({config_.heads, 3, config_.head_width})});
    const auto part = [&](int64_t index) { return emit_.op("aten::select", "int", {each, 3, index}); };
    Value q = part(0), k = part(1);
    const Value v = part(2);
    if (config_.query_norm) {
      q = normed_before_transpose(q, in(family_.modules.query_norm), config_.heads);
      k = normed_before_transpose(k, in(family_.modules.key_norm), config_.heads);
    }
    const Value by_head = transposed(q), values = transposed(v);
    return {by_head, transposed(k), values};
  }

  std::array<Value, 3> joined_with_one_key(Value x) {
    const int64_t width = config_.head_width, queries = config_.heads * width;
    const Value all = unsqueezed(all_projected(x, queries + 2 * width));
    const std::vector<int64_t> sizes = {queries, width, width};
    const Values three = emit_.unpack_list(emit_.op("aten::split_with_sizes", "", {all, sizes, 3}), 3);
    return {heads(three[0]), three[1], three[2]};
  }

  std::array<Value, 3> joined_heads_with_one_key(Value x) {
    const int64_t width = config_.head_width, count = config_.heads + 2;
    const Value all = emit_.op("aten::view", "", {all_projected(x, count * width), parts_.shape({count, width})});
    const Value q = transposed(emit_.op("aten::slice", "Tensor", {all, 2, 0, -2, 1}));
    const Value k = transposed(picked(all, 2, -2)), v = transposed(picked(all, 2, -1));
    return {q, k, v};
  }

  // Keys and values of each group are copied to all of its heads.
  std::array<Value, 3> joined_by_group(Value x) {
    const int64_t width = config_.head_width, group = config_.heads / config_.kv_heads;
    const Value projected = all_projected(x, (config_.heads + 2 * config_.kv_heads) * width);
    const Value all = emit_.op("aten::view", "", {projected, parts_.shape({-1, group + 2, width})});
    const Value q = emit_.op("aten::slice", "Tensor", {all, 3, 0, -2, 1});
    const Value wide = parts_.shape({config_.kv_heads, group, width});
    const Value key = picked(all, 3, -2), value = picked(all, 3, -1);
    const Value k = emit_.op("aten::broadcast_to", "", {key, wide}),
                v = emit_.op("aten::broadcast_to", "", {value, wide});
    const auto flat = [&](Value of) { return emit_.op("aten::flatten", "using_ints", {of, 2, 3}); };
    const Value queries = flat(q), keys = flat(k), values = flat(v);
    return {transposed(queries), transposed(keys), transposed(values)};
  }

  // By a list of one index, which copies, unlike a slice.
  Value picked(Value x, int64_t dim, int64_t index) {
    Values indices(dim, emit_.constant(IValue()));
    indices.push_back(emit_.constant(at::tensor({index}, at::TensorOptions(at::kLong).device(parts_.device()))));
    const Value list = emit_.list(c10::ListType::create(c10::OptionalType::ofTensor()), indices);
    return emit_.op("aten::index", "Tensor", {x, list});
  }

  Value viewed(Value x) { return emit_.op("aten::view", "", {x, parts_.shape({-1, config_.head_width})}); }
  Value heads(Value x) { return transposed(viewed(x)); }  // [batch, heads, length, width]

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  const model::TransformersConfig& config_;
  const model::TransformersFamilyConventions& family_;
  std::string path_;
  std::optional<Value> gate_;  // of the output, [batch, length, heads * width]
};

}  // namespace

Value write_attention(DecoderOpEmitter& parts, Value x, const std::string& path, const TokenPositionsAndRotary& at,
                      const AttentionMaskWindowAndBias& seen, const model::PerLayerConfigOverrides* layer,
                      KeysAndValues* shared) {
  if (layer) return AttentionWriter(parts, path).write(x, at, seen, *layer, *shared);
  return AttentionWriter(parts, path).write(x, at, seen);
}

}  // namespace memtune::frontend
