#include "core/model/frontend/transformers/latent_projections.h"

#include <ATen/ATen.h>

#include <limits>

#include "core/model/frontend/transformers/rotary.h"

namespace memtune::frontend {
namespace {

constexpr int64_t kEndOfHead = std::numeric_limits<int64_t>::max();
constexpr double kEpsilon = 1e-6;  // of these norms, whatever the config says

class LatentProjections {
 public:
  LatentProjections(DecoderOpEmitter& parts, std::string path)
      : parts_(parts),
        emit_(parts.emit()),
        config_(parts.config()),
        latent_(*parts.config().latent),
        path_(std::move(path)) {}

  std::array<Value, 3> write(Value x, Value cosine, Value sine) {
    const Value all_queries = heads(queries(x), config_.head_width);
    const Values q = split(all_queries, latent_.plain, latent_.rotated);
    const Value narrow =
        parts_.linear(x, in("kv_a_proj_with_mqa"), config_.hidden, latent_.rank + latent_.rotated, latent_.bias);
    const Values kv = split(narrow, latent_.rank, latent_.rotated);
    const Value normed = parts_.rms_norm(kv[0], in("kv_a_layernorm"), latent_.rank, kEpsilon);
    const Value compressed = one_head(normed, latent_.rank);
    const Value common = one_head(kv[1], latent_.rotated);
    const auto [turned_q, turned_k] = turned(q[1], common, cosine, sine);
    const Value whole_q = cat(q[0], turned_q);
    const auto [k, v] = expanded(compressed, turned_k);
    return {whole_q, k, v};
  }

 private:
  Value queries(Value x) {
    const int64_t width = config_.heads * config_.head_width;
    if (latent_.query_rank == 0) return parts_.linear(x, in("q_proj"), config_.hidden, width, /*bias=*/false);
    const Value narrow = parts_.linear(x, in("q_a_proj"), config_.hidden, latent_.query_rank, latent_.bias);
    const Value normed = parts_.rms_norm(narrow, in("q_a_layernorm"), latent_.query_rank, kEpsilon);
    return parts_.linear(normed, in("q_b_proj"), latent_.query_rank, width, /*bias=*/false);
  }

  std::pair<Value, Value> turned(Value q, Value k, Value cosine, Value sine) {
    if (parts_.family().turning == model::RotaryEmbeddingLayoutAndPrecision::complex) {
      const Value turned_q = rotate_as_complex(parts_, q, cosine, pairs(config_.heads));
      return {turned_q, rotate_as_complex(parts_, k, cosine, pairs(1))};
    }
    if (!latent_.interleaved) return apply_rotary(parts_, q, k, {cosine, sine});
    const int64_t half = latent_.rotated / 2;
    cosine = slice(cosine, 0, half);
    sine = slice(sine, 0, half);
    const Value turned_q = turned_pairs(q, cosine, sine);
    return {turned_q, turned_pairs(k, cosine, sine)};
  }

  Value pairs(int64_t heads) {
    return emit_.list(c10::ListType::ofInts(),
                      {parts_.batch(), emit_.constant(heads), parts_.length(), emit_.constant(-1), emit_.constant(2)});
  }

  // Pairs are adjacent elements before and half a head apart afterwards.
  Value turned_pairs(Value x, Value cosine, Value sine) {
    const Value first = slice(x, 0, kEndOfHead, 2), second = slice(x, 1, kEndOfHead, 2);
    return rotate_pairs(parts_, first, second, cosine, sine);
  }

  // Keys and values of all heads.
  std::pair<Value, Value> expanded(Value compressed, Value turned) {
    const int64_t width = latent_.plain + latent_.value;
    const Value wide = parts_.linear(compressed, in("kv_b_proj"), latent_.rank, config_.heads * width, /*bias=*/false);
    const Value by_head = heads(wide, width);
    const Values two = split(by_head, latent_.plain, latent_.value);
    const Value common = emit_.op("aten::expand", "", {turned, std::vector<int64_t>{-1, config_.heads, -1, -1}});
    const Value keys = emit_.op("aten::new_empty", "", {by_head, shape(config_.heads, config_.head_width)});
    emit_.op("aten::copy_", "", {slice(keys, 0, latent_.plain), two[0]});
    emit_.op("aten::copy_", "", {slice(keys, latent_.plain, kEndOfHead), common});
    return {keys, two[1]};
  }

  std::string in(const char* name) const { return path_ + "." + name; }

  Value shape(int64_t count, int64_t width) {
    return emit_.list(c10::ListType::ofInts(),
                      {parts_.batch(), emit_.constant(count), parts_.length(), emit_.constant(width)});
  }
  Value one_head(Value x, int64_t width) { return emit_.op("aten::view", "", {x, shape(1, width)}); }
  Value heads(Value x, int64_t width) {
    return emit_.op("aten::transpose", "int", {emit_.op("aten::view", "", {x, parts_.shape({-1, width})}), 1, 2});
  }
  Values split(Value x, int64_t first, int64_t second) {
    return emit_.unpack_list(emit_.op("aten::split_with_sizes", "", {x, std::vector<int64_t>{first, second}, -1}), 2);
  }
  Value slice(Value x, int64_t begin, int64_t end, int64_t step = 1) {
    return emit_.op("aten::slice", "Tensor", {x, 3, begin, end, step});
  }
  Value cat(Value first, Value second) {
    return emit_.op("aten::cat", "", {emit_.list(c10::ListType::ofTensors(), {first, second}), -1});
  }

  DecoderOpEmitter& parts_;
  ProgramEmitter& emit_;
  const model::TransformersConfig& config_;
  const model::LatentAttentionConfig& latent_;
  std::string path_;
};

}  // namespace

std::array<Value, 3> write_latent_projections(DecoderOpEmitter& parts, Value x, const std::string& path, Value cosine,
                                              Value sine) {
  return LatentProjections(parts, path).write(x, cosine, sine);
}

}  // namespace memtune::frontend
