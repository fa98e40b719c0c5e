// Differences between the decoder families of transformers beyond the numbers in config.json. One row per model_type,
// with the behaviour and the defaults of transformers 5.17.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::model {

enum class NormKind {
  rms,                  // weight · cast(x / rms)
  rms_plus_one,         // cast(x / rms · (1 + weight)); weights start at 0
  rms_weight_in_float,  // cast(weight · x / rms)
  layer,                // layer_norm
  layer_in_float,       // cast(weight · (x - mean) / deviation), without bias
  layer_plus_one,       // layer_norm with 1 + weight
};
// Norm of queries and keys: before the rotary embedding, but for per_head_after_rotary.
enum class QueryKeyNorm {
  none,
  per_head,
  per_transposed_head,
  per_head_after_rotary,
  per_head_weights,  // NormKind::layer_in_float with weights of each head
  each_head,         // a layer norm for each head
  whole,
};
enum class QkvLayout {
  apart,           // q_proj, k_proj, v_proj
  joined,          // one layer: all queries, then keys, then values
  joined_by_head,  // one layer: query, key, value of the first head, then of the next
};
enum class MlpKind { gated, gated_joined, plain };
// Pairs of head elements that the rotary embedding rotates together: half a head apart, or adjacent. In float:
// rotated in float32; by float tables: each factor of the rotation is cast.
enum class RotaryLayout { halves, halves_in_float, neighbours, neighbours_in_float, neighbours_by_float_tables };

// Module names in transformers; "" if the family has no such module.
struct FamilyModuleNames {
  std::string_view model_class = "ForCausalLM", layer_class = "DecoderLayer";
  std::string_view base = "model", embedding = "embed_tokens", layers = "layers", last_norm = "norm";
  std::string_view before_attention = "input_layernorm", after_attention = "", before_mlp = "post_attention_layernorm",
                   after_mlp = "";
  std::string_view attention = "self_attn", joined = "qkv_proj", output = "o_proj", query_norm = "q_norm",
                   key_norm = "k_norm";
  std::string_view up = "up_proj", down = "down_proj";
  std::string_view stored_head = "lm_head";  // in weight files
};

// Field names in config.json; "" if there is none.
struct ConfigFieldNames {
  const char* hidden = "hidden_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* mlp = "intermediate_size";
  const char* epsilon = "rms_norm_eps";
  const char* activation = "hidden_act";
  const char* positions = "";  // length of a position embedding, used instead of rotary embeddings
  const char* rope_theta = "rope_theta";
  const char* rope_theta_in_windows = "rope_local_base_freq";
  const char* rotary_part = "partial_rotary_factor";
  const char* attention_dropout = "attention_dropout";
  const char* embedding_dropout = "";
  const char* attention_output_dropout = "";
  const char* mlp_output_dropout = "";
  const char* logit_scale = "";
};

// A boolean field of the config with its default; without a field, `otherwise` holds for the whole family.
struct ConfigFlag {
  const char* field = "";
  bool otherwise = false;
};

struct ExpertModuleNames {
  const char* width = "";                                                   // name of the field; "": no experts
  std::string_view stored = "mlp";                                          // module name in weight files
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";  // names there, per expert
  bool always_normed = false;  // router weights of the chosen experts sum to one, in float32
  bool shared = false;         // a shared expert that processes all tokens
};

struct TransformersFamily {
  std::string_view model_type;
  std::string_view class_prefix;  // of classes, for example "Llama" in LlamaModel
  FamilyModuleNames modules = {};
  ConfigFieldNames fields = {};
  NormKind norm = NormKind::rms;
  QueryKeyNorm query_norm = QueryKeyNorm::none;
  ConfigFlag query_normed = {};  // whether query_norm is active; without a field it is
  QkvLayout projections = QkvLayout::apart;
  MlpKind mlp = MlpKind::gated;
  ExpertModuleNames experts = {};
  ConfigFlag query_bias = {}, output_bias = {}, mlp_bias = {};
  ConfigFlag parallel = {};         // attention and MLP read the same input
  bool shared_norm = false;         // if parallel: one norm for both
  bool residual_last = true;        // if parallel: added to the sum of both
  bool head_bias = false;           // of the output layer
  bool transposed_weights = false;  // Conv1D instead of Linear
  bool softmax_in_float = true;     // of eager attention
  bool scaled_embedding = false;    // by sqrt(hidden_size)
  bool multipliers = false;         // for embedding, attention, residuals, logits
  bool capped_logits = false;       // final_logit_softcapping, query_pre_attn_scalar
  RotaryLayout turning = RotaryLayout::halves;
  bool partial_rotary = false;         // the rest of a head is not rotated
  bool skips_rotary = false;           // no_rope_layers
  bool turns_in_windows_only = false;  // only layers with a window are rotated (layer_types)
  bool turns_without_windows = false;  // but all, if there is no window at all
  bool rotary_by_layer_type = false;   // two tables
  bool rotary_alpha = false;           // a factor of theta, "alpha"
  bool windowed = false;               // sliding_window alone turns windows on
  bool window_needs_flag = false;      // use_sliding_window turns windows on
  int64_t window_pattern = 0;          // every n-th layer has no window, without layer_types
  bool padded = true;                  // the embedding of pad_token_id gets no gradient
  // Defaults of the family for missing fields.
  bool tied = false;
  int64_t head_width = 0;  // 0: hidden / heads
  int64_t kv_heads = 0;    // 0: equal to heads
  std::optional<int64_t> padding = std::nullopt;
  double rope_theta = 10000.0, rope_theta_in_windows = 10000.0;
  double rotary_part = 1;
  double dropout = 0;
  std::string_view defaults = {};  // JSON of other fields that the class fills in
};

const std::vector<TransformersFamily>& transformers_families();
const TransformersFamily* find_transformers_family(std::string_view model_type);  // null: unknown

}  // namespace memtune::model
