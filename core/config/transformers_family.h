// What tells the decoders of transformers apart beyond the numbers of their config.json: one row a model_type, as
// transformers 5.17 runs and fills in what a config leaves out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::config {

enum class NormKind {
  rms,                  // weight · cast(x / rms)
  rms_plus_one,         // cast(x / rms · (1 + weight)); weights begin at 0
  rms_weight_in_float,  // cast(weight · x / rms)
};
enum class QueryNorm { none, per_head, whole };  // of queries and keys, before the rotary embedding

struct TransformersFamily {
  std::string_view model_type;
  std::string_view class_prefix;  // of LlamaModel, LlamaAttention
  NormKind norm = NormKind::rms;
  bool norm_before = true;  // attention and MLP
  bool norm_after = false;
  QueryNorm query_norm = QueryNorm::none;
  bool fused = false;                          // qkv_proj and gate_up_proj in place of two and three layers
  bool query_bias = false;                     // q_proj, k_proj and v_proj always have one, o_proj never
  bool attention_bias = false;                 // the config may ask for a bias
  bool mlp_bias = false;                       // the same
  bool scaled_embedding = false;               // by the root of hidden_size
  bool multipliers = false;                    // embedding, attention, residuals, logits
  bool capped_logits = false;                  // final_logit_softcapping, query_pre_attn_scalar
  bool rotary_in_float = false;                // and cast back
  bool partial_rotary = false;                 // the rest of a head passes by
  bool skips_rotary = false;                   // no_rope_layers
  bool windowed = false;                       // by sliding_window alone
  bool window_is_asked_for = false;            // by use_sliding_window
  std::string_view activation = "hidden_act";  // its field
  // What a config may leave out.
  bool tied = false;
  int64_t head_width = 0;  // 0: hidden / heads
  int64_t kv_heads = 0;    // 0: as many as heads
  std::optional<int64_t> padding = std::nullopt;
  double rope_theta = 10000.0;
};

const std::vector<TransformersFamily>& transformers_families();
const TransformersFamily* find_transformers_family(std::string_view model_type);  // null: not known

}  // namespace memtune::config
