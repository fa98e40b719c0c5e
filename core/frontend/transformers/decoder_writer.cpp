#include "core/frontend/transformers/decoder_writer.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/frontend/emitter.h"
#include "core/frontend/transformers/rotary.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using config::NormKind;
using config::QueryNorm;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

class DecoderWriter {
 public:
  DecoderWriter(program::Program& program, const config::TransformersConfig& config, TransformersWeights& weights,
                at::TensorOptions options)
      : emit_(program),
        c_(config),
        f_(config.family),
        weights_(weights),
        dtype_(c10::typeMetaToScalarType(options.dtype())),
        device_(options.device()) {}

  void write() {
    const Value ids = emit_.input("input_ids");
    batch_ = emit_.op("aten::size", "int", {ids, 0});
    length_ = emit_.op("aten::size", "int", {ids, 1});
    const at::Tensor table = weights_.make("model.embed_tokens.weight", {c_.vocabulary, c_.hidden}, Filling::noise);
    const Value x = body(ids, table);
    emit_.answer(logits(x, table));
  }

 private:
  std::string type(const char* name) const { return std::string(f_.class_prefix) + name; }

  Value parameter(const std::string& name, at::IntArrayRef shape, Filling filling) {
    return emit_.parameter(name, weights_.make(name, shape, filling));
  }

  Value body(Value ids, const at::Tensor& table) {
    const Emitter::InRegion region(emit_, "model", type("Model"));
    Value x = embedding(ids, emit_.parameter("model.embed_tokens.weight", table));
    if (f_.multipliers) x = times(x, c_.embedding_multiplier);
    turn_ = write_rotary(emit_, c_, length_, dtype_, device_);
    for (int64_t i = 0; i < c_.layers; ++i) x = layer(x, i);
    return norm(x, "model.norm", c_.hidden);
  }

  Value embedding(Value ids, Value table) {
    const std::string path = "model.embed_tokens";
    const Emitter::InRegion region(emit_, path, f_.scaled_embedding ? type("TextScaledWordEmbedding") : "Embedding");
    const Value x = emit_.op("aten::embedding", "", {table, ids, c_.padding.value_or(-1), false, false});
    if (!f_.scaled_embedding) return x;
    const at::Tensor root = at::scalar_tensor(std::sqrt(static_cast<double>(c_.hidden)), at::kFloat).to(device_);
    return multiply(x, cast(emit_.buffer(path + ".embed_scale", root), dtype_));
  }

  Value logits(Value x, const at::Tensor& table) {
    Value y = c_.tied ? tied(x, table) : linear(x, "lm_head", c_.hidden, c_.vocabulary, false);
    if (f_.multipliers) y = emit_.op("aten::div", "Scalar", {y, c_.logits_divisor});
    if (!c_.logit_cap) return y;
    y = emit_.op("aten::tanh", "", {emit_.op("aten::div", "Scalar", {y, *c_.logit_cap})});
    return times(y, *c_.logit_cap);
  }

  Value tied(Value x, const at::Tensor& table) {
    const Emitter::InRegion region(emit_, "lm_head", "Linear");
    return emit_.op("aten::linear", "", {x, emit_.parameter("lm_head.weight", table)});
  }

  Value layer(Value x, int64_t index) {
    const std::string path = "model.layers." + std::to_string(index);
    const Emitter::InRegion region(emit_, path, type("DecoderLayer"));
    Value y = f_.norm_before ? norm(x, path + ".input_layernorm", c_.hidden) : x;
    y = attention(y, path + ".self_attn", c_.turns[index]);
    if (f_.norm_after) y = norm(y, path + ".post_attention_layernorm", c_.hidden);
    x = residual(x, y);
    if (f_.norm_before)
      y = norm(x, path + (f_.norm_after ? ".pre_feedforward_layernorm" : ".post_attention_layernorm"), c_.hidden);
    y = mlp(f_.norm_before ? y : x, path + ".mlp");
    if (f_.norm_after) y = norm(y, path + ".post_feedforward_layernorm", c_.hidden);
    return residual(x, y);
  }

  Value residual(Value x, Value y) {
    return emit_.op("aten::add", "Tensor", {x, f_.multipliers ? times(y, c_.residual_multiplier) : y});
  }

  Value norm(Value x, const std::string& path, int64_t width) {
    const Emitter::InRegion region(emit_, path, type("RMSNorm"));
    const bool plus_one = f_.norm == NormKind::rms_plus_one;
    const Value weight = parameter(path + ".weight", {width}, plus_one ? Filling::zeros : Filling::ones);
    const Value in_float = cast(x, at::kFloat);
    const Value square = emit_.op("aten::pow", "Tensor_Scalar", {in_float, 2});
    const Value mean = emit_.op("aten::mean", "dim", {square, std::vector<int64_t>{-1}, true});
    const Value root = emit_.op("aten::rsqrt", "", {emit_.op("aten::add", "Scalar", {mean, c_.epsilon})});
    const Value normed = multiply(in_float, root);
    if (f_.norm == NormKind::rms) return multiply(weight, cast(normed, dtype_));
    if (!plus_one) return cast(multiply(weight, normed), dtype_);
    const Value scale = emit_.op("aten::add", "Scalar", {cast(weight, at::kFloat), 1.0});
    return emit_.op("aten::type_as", "", {multiply(normed, scale), x});
  }

  Value attention(Value x, const std::string& path, bool turns) {
    const Emitter::InRegion region(emit_, path, type("Attention"));
    auto [q, k, v] = f_.fused ? fused_projections(x, path) : projections(x, path);
    if (turns) {
      const std::pair<Value, Value> turn = {unsqueezed(turn_.first), unsqueezed(turn_.second)};
      q = write_turned(emit_, c_, q, turn, dtype_);
      k = write_turned(emit_, c_, k, turn, dtype_);
    }
    const bool grouped = c_.kv_heads < c_.heads;
    const Value o = emit_.op("aten::scaled_dot_product_attention", "",
                             {q, k, v, IValue(), c_.attention_dropout, true, c_.attention_scale, grouped});
    const Value whole = emit_.op("aten::contiguous", "", {transposed(o)});
    const Value shape = emit_.list(c10::ListType::ofInts(), {batch_, length_, emit_.constant(-1)});
    const Value joined = emit_.op("aten::reshape", "", {whole, shape});
    return linear(joined, path + ".o_proj", c_.heads * c_.head_width, c_.hidden, c_.output_bias);
  }

  std::array<Value, 3> projections(Value x, const std::string& path) {
    Value q = linear(x, path + ".q_proj", c_.hidden, c_.heads * c_.head_width, c_.query_bias);
    q = before_heads(q, path + ".q_norm", c_.heads);
    if (f_.query_norm != QueryNorm::whole) q = heads(q, path + ".q_norm");
    Value k = linear(x, path + ".k_proj", c_.hidden, c_.kv_heads * c_.head_width, c_.query_bias);
    k = before_heads(k, path + ".k_norm", c_.kv_heads);
    if (f_.query_norm != QueryNorm::whole) k = heads(k, path + ".k_norm");
    const Value v = linear(x, path + ".v_proj", c_.hidden, c_.kv_heads * c_.head_width, c_.query_bias);
    if (f_.query_norm != QueryNorm::whole) return {q, k, heads(v, "")};
    return {heads(q, ""), heads(k, ""), heads(v, "")};
  }

  std::array<Value, 3> fused_projections(Value x, const std::string& path) {
    const int64_t queries = c_.heads * c_.head_width, keys = c_.kv_heads * c_.head_width;
    const Value all = linear(x, path + ".qkv_proj", c_.hidden, queries + 2 * keys, false);
    const auto part = [&](int64_t begin, int64_t end) {
      return emit_.op("aten::slice", "Tensor", {all, 2, begin, end, 1});
    };
    const Value q = part(0, queries), k = part(queries, queries + keys), v = part(queries + keys, kEnd);
    return {heads(q, ""), heads(k, ""), heads(v, "")};
  }

  Value before_heads(Value x, const std::string& path, int64_t count) {
    return f_.query_norm == QueryNorm::whole ? norm(x, path, count * c_.head_width) : x;
  }

  // [batch, heads, length, width]; normed by head where the family does and `norm_path` is given.
  Value heads(Value x, const std::string& norm_path) {
    const Value shape =
        emit_.list(c10::ListType::ofInts(), {batch_, length_, emit_.constant(-1), emit_.constant(c_.head_width)});
    Value y = emit_.op("aten::view", "", {x, shape});
    if (f_.query_norm == QueryNorm::per_head && !norm_path.empty()) y = norm(y, norm_path, c_.head_width);
    return transposed(y);
  }

  Value mlp(Value x, const std::string& path) {
    const Emitter::InRegion region(emit_, path, type("MLP"));
    if (f_.fused) {
      const Value both = linear(x, path + ".gate_up_proj", c_.hidden, 2 * c_.mlp, false);
      const Values parts = emit_.unpack_list(emit_.op("aten::chunk", "", {both, 2, -1}), 2);
      return linear(multiply(parts[1], activated(parts[0])), path + ".down_proj", c_.mlp, c_.hidden, false);
    }
    const Value gate = activated(linear(x, path + ".gate_proj", c_.hidden, c_.mlp, c_.mlp_bias));
    const Value up = linear(x, path + ".up_proj", c_.hidden, c_.mlp, c_.mlp_bias);
    return linear(multiply(gate, up), path + ".down_proj", c_.mlp, c_.hidden, c_.mlp_bias);
  }

  Value activated(Value x) {
    if (c_.activation == "silu") return emit_.op("aten::silu", "", {x});
    return emit_.op("aten::gelu", "", {x, std::string(c_.activation == "gelu" ? "none" : "tanh")});
  }

  Value linear(Value x, const std::string& path, int64_t in, int64_t out, bool bias) {
    const Emitter::InRegion region(emit_, path, "Linear");
    const Value weight = parameter(path + ".weight", {out, in}, Filling::noise);
    if (!bias) return emit_.op("aten::linear", "", {x, weight});
    return emit_.op("aten::linear", "", {x, weight, parameter(path + ".bias", {out}, Filling::zeros)});
  }

  Value cast(Value x, at::ScalarType type) { return emit_.op("aten::to", "dtype", {x, type}); }
  Value multiply(Value x, Value y) { return emit_.op("aten::mul", "Tensor", {x, y}); }
  Value times(Value x, double factor) { return emit_.op("aten::mul", "Scalar", {x, factor}); }
  Value transposed(Value x) { return emit_.op("aten::transpose", "int", {x, 1, 2}); }
  Value unsqueezed(Value x) { return emit_.op("aten::unsqueeze", "", {x, 1}); }

  Emitter emit_;
  const config::TransformersConfig& c_;
  const config::TransformersFamily& f_;
  TransformersWeights& weights_;
  at::ScalarType dtype_;
  c10::Device device_;
  Value batch_, length_;
  std::pair<Value, Value> turn_;  // cosine, sine
};

}  // namespace

void write_decoder(program::Program& program, const config::TransformersConfig& config, TransformersWeights& weights,
                   at::TensorOptions options) {
  program.regions.push_back({"", std::string(config.family.class_prefix) + "ForCausalLM", -1});
  DecoderWriter(program, config, weights, options).write();
}

}  // namespace memtune::frontend
