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
  layer,                // layer_norm
  layer_in_float,       // cast(weight · (x - mean) / deviation), without bias
};
// Of queries and keys, before the rotary embedding.
enum class QueryNorm { none, per_head, per_transposed_head, each_head, whole };
enum class Projections {
  apart,           // q_proj, k_proj, v_proj
  joined,          // one layer: all queries, then keys, then values
  joined_by_head,  // one layer: query, key and value of the first head, then of the next
};
enum class MlpKind { gated, gated_joined, plain };
// Which two numbers of a head turn together: those half a head apart, or neighbours.
enum class Turning { halves, halves_in_float, neighbours, neighbours_in_float };

// Where transformers puts the modules; "": the family has none.
struct FamilyModules {
  std::string_view model_class = "ForCausalLM", layer_class = "DecoderLayer";
  std::string_view base = "model", embedding = "embed_tokens", layers = "layers", last_norm = "norm";
  std::string_view before_attention = "input_layernorm", after_attention = "", before_mlp = "post_attention_layernorm",
                   after_mlp = "";
  std::string_view attention = "self_attn", joined = "qkv_proj", output = "o_proj", query_norm = "q_norm",
                   key_norm = "k_norm";
  std::string_view up = "up_proj", down = "down_proj";
  std::string_view stored_head = "lm_head";  // in weight files
};

// What a config.json calls them; "": it does not tell.
struct FieldNames {
  const char* hidden = "hidden_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* mlp = "intermediate_size";
  const char* epsilon = "rms_norm_eps";
  const char* activation = "hidden_act";
  const char* positions = "";  // of a table, in place of the rotary embedding
  const char* rope_theta = "rope_theta";
  const char* rotary_part = "partial_rotary_factor";
  const char* attention_dropout = "attention_dropout";
  const char* embedding_dropout = "";
  const char* attention_output_dropout = "";
  const char* mlp_output_dropout = "";
  const char* logit_scale = "";
};

// Yes or no by a field of the config, or for the whole family.
struct Choice {
  const char* field = "";
  bool otherwise = false;
};

struct ExpertNames {
  const char* width = "";                                                   // field; "": the family has no experts
  std::string_view stored = "mlp";                                          // the module's name in weight files
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";  // there, of each expert
  bool always_normed = false;  // weights of the chosen add up to one, in float32
  bool shared = false;         // one more that sees all tokens
};

struct TransformersFamily {
  std::string_view model_type;
  std::string_view class_prefix;  // of LlamaModel, LlamaAttention
  FamilyModules modules = {};
  FieldNames fields = {};
  NormKind norm = NormKind::rms;
  QueryNorm query_norm = QueryNorm::none;
  Choice each_head_normed = {};  // whether QueryNorm::each_head is there
  Projections projections = Projections::apart;
  MlpKind mlp = MlpKind::gated;
  ExpertNames experts = {};
  Choice query_bias = {}, output_bias = {}, mlp_bias = {};
  Choice parallel = {};             // attention and MLP of one input
  bool shared_norm = false;         // when parallel: one norm for both
  bool transposed_weights = false;  // Conv1D in place of Linear
  bool softmax_in_float = true;     // of eager attention
  bool scaled_embedding = false;    // by the root of hidden_size
  bool multipliers = false;         // embedding, attention, residuals, logits
  bool capped_logits = false;       // final_logit_softcapping, query_pre_attn_scalar
  Turning turning = Turning::halves;
  bool partial_rotary = false;         // the rest of a head passes by
  bool skips_rotary = false;           // no_rope_layers
  bool turns_in_windows_only = false;  // by layer_types
  bool rotary_by_layer_type = false;   // two tables
  bool windowed = false;               // by sliding_window alone
  bool window_is_asked_for = false;    // by use_sliding_window
  int64_t window_pattern = 0;          // every so many-th layer has none, when layer_types does not tell
  bool padded = true;                  // pad_token_id has no gradient
  // What a config may leave out.
  bool tied = false;
  int64_t head_width = 0;  // 0: hidden / heads
  int64_t kv_heads = 0;    // 0: as many as heads
  std::optional<int64_t> padding = std::nullopt;
  double rope_theta = 10000.0;
  double rotary_part = 1;
  double dropout = 0;
};

const std::vector<TransformersFamily>& transformers_families();
const TransformersFamily* find_transformers_family(std::string_view model_type);  // null: not known

}  // namespace memtune::config
