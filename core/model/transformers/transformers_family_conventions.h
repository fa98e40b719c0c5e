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
  rms_float_weight,     // the same, but the weight is cast to float32 before
  layer_plus_one,       // layer_norm with 1 + weight
  layer_unweighted,     // layer_norm of float32, without weights
  rms_by_power,         // cast(x · (mean square)^-0.5 · weight)
  layer_unbiased,       // layer_norm without bias
};
// Norm of queries and keys: before the rotary embedding, but for per_head_after_rotary.
enum class QueryKeyNorm {
  none,
  per_head,
  per_transposed_head,
  per_head_after_rotary,
  length,            // after the rotary embedding and only where there is one: x / rms, without weights
  per_head_weights,  // NormKind::layer_in_float with weights of each head
  each_head,         // a layer norm for each head
  whole,
};
enum class QkvLayout {
  apart,                      // q_proj, k_proj, v_proj
  joined,                     // one layer: all queries, then keys, then values
  joined_and_split,           // the same, split by one operator
  joined_by_quarter,          // one layer: queries, values, keys of a quarter of the heads, then of the next
  joined_by_head,             // one layer: query, key, value of the first head, then of the next; or one key for all
  joined_by_head_and_normed,  // the same, normed before heads come first
  joined_heads_with_one_key,  // one layer: queries of all heads, one key, one value
  joined_by_group,            // one layer: the queries of a group, their key and value, then of the next group
};
// Layers "linear_attention" have a gated delta net instead of attention: one projection each, or two joined by key
// head.
enum class DeltaNetProjectionKind { none, apart, joined };
enum class MlpKind { gated, gated_joined, plain };
// How a router weighs and chooses experts.
enum class RouterKind {
  softmax,            // softmax of all logits in float32, then the best
  softmax_of_float,   // of logits that are cast to float32; the weights stay in float32
  sigmoid_of_best,    // sigmoid of the best logits, 0 for all others
  softmax_of_best,    // the best logits in float32, then softmax
  biased_of_best,     // the best logits of a layer with bias, then softmax
  float_softmax,      // softmax of the logits of float32 weights
  biased_softmax,     // the same, and a bias moves the choice, not the weights
  sigmoid,            // sigmoid of logits, which are cast to float32; a bias moves the choice, not the weights
  softmax_in_groups,  // softmax of float32 logits; of the best groups of experts only, by topk_method
  normed_softmax,     // softmax of float32, of a normed and scaled input; another factor for each expert
  sparse_mixer,       // two experts drawn by their odds, with a gradient of its own
  sigmoid_in_groups,  // sigmoid of float32 logits; the same bias; of the best groups of experts only
};
enum class ExpertMlpKind {
  gated,
  of_all_tokens,  // each expert computes each token, times its router weight; weights [experts, in, out]
  clamped,        // gate and up in turns, both clamped; layers have biases, and weights [experts, in, out]
};
enum class SharedExpertOrder {
  none,
  gated,   // times sigmoid of a layer's output; computed first
  before,  // computed before the routed experts
  first,   // the same, from all tokens as one list
  after,
  beside,  // after them, as a module of the layer
};
// Pairs of head elements that the rotary embedding rotates together: half a head apart, or adjacent. In float:
// rotated in float32; by float tables: each factor of the rotation is cast; of half tables: cosine and sine once per
// pair.
enum class RotaryEmbeddingLayoutAndPrecision {
  halves,
  halves_in_float,
  halves_of_half_tables,
  complex,  // pairs of neighbours as complex numbers, by one complex table
  neighbours,
  neighbours_in_float,
  neighbours_by_float_tables,
  neighbours_by_doubled_tables  // each factor is in the table twice
};

// What knows the positions instead of rotary embeddings and the embedding of positions.
enum class OlderDecoderPositionEncoding {
  none,
  rotary,           // of sines and cosines in each attention; they are cast
  rotary_in_float,  // the same, not cast
  sinusoidal,       // of sines and cosines, added to the embedding
  biases,           // of scores, linear in the position of the key (alibi)
  biases_by_mask,   // the same, of positions that the padding mask counts
};
// How eager attention computes scores, to which it adds the mask.
enum class EagerAttentionScoreFormula {
  scaled,         // products times a scale
  divided,        // products of float32, divided by the root of the width
  masked_first,   // the same, after the mask
  seen_by_table,  // products of float32, hidden by a table of seen positions
  biased,         // scaled products and a bias, hidden by the mask
  bias_product,   // a bias and scaled products in one operator, batch and heads as one dimension
  bounded,        // products, batch and heads as one dimension; at least the lowest number
};

// Module names in transformers; "" if the family has no such module.
struct FamilyModuleNames {
  std::string_view model_class = "ForCausalLM", layer_class = "DecoderLayer";
  std::string_view base = "model", embedding = "embed_tokens", layers = "layers", last_norm = "norm";
  std::string_view positions = "wpe";
  std::string_view before_attention = "input_layernorm", after_attention = "", before_mlp = "post_attention_layernorm",
                   after_mlp = "";
  std::string_view attention = "self_attn", joined = "qkv_proj", output = "o_proj", query_norm = "q_norm",
                   key_norm = "k_norm";
  std::string_view mlp = "mlp";  // "": its layers are the layer's own
  std::string_view gate = "gate_proj", up = "up_proj", gate_and_up = "gate_up_proj", down = "down_proj";
  std::string_view stored_head = "lm_head";  // in weight files
};

// Field names in config.json; "" if there is none.
struct ConfigFieldNames {
  const char* hidden = "hidden_size";
  const char* old_hidden = "";  // in older files
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";  // "": one key per query
  const char* mlp = "intermediate_size";
  const char* epsilon = "rms_norm_eps";
  const char* activation = "hidden_act";  // "": silu
  const char* positions = "";             // length of a position embedding, used instead of rotary embeddings
  const char* deviation = "initializer_range";
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
struct BooleanConfigFieldWithDefault {
  const char* field = "";
  bool otherwise = false;
};

struct FamilyMoeConventions {
  // Fields of config.json.
  BooleanConfigFieldWithDefault enabled = {"", true};
  const char* width = "";  // "": no experts
  const char* count = "";  // "": num_local_experts or num_experts
  const char* chosen = "num_experts_per_tok";
  const char* shared_width = "";
  const char* shared_count = "";  // "": one
  // Modules.
  std::string_view block = "mlp", block_class = "SparseMoeBlock";
  std::string_view router = "gate", router_class = "TopKRouter", router_weight = "weight";
  std::string_view shared = "shared_expert";
  std::string_view stored = "mlp";                                          // of the block in weight files
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";  // names there, per expert
  RouterKind routing = RouterKind::softmax;
  ExpertMlpKind layout = ExpertMlpKind::gated;
  SharedExpertOrder sharing = SharedExpertOrder::none;
  bool beside_mlp = false;     // of the layer, which reads the input of the MLP too
  bool always_normed = false;  // router weights of the chosen experts sum to one
  bool bias_in_block = false;  // the bias of the choice is a buffer of the block, else of the router
};

// A part of module names, and its replacement in weight files.
struct WeightRenaming {
  std::string_view name, stored;
};

struct TransformersFamilyConventions {
  std::string_view model_type;
  std::string_view class_prefix;  // of classes, for example "Llama" in LlamaModel
  FamilyModuleNames modules = {};
  ConfigFieldNames fields = {};
  NormKind norm = NormKind::rms;
  QueryKeyNorm query_norm = QueryKeyNorm::none;
  BooleanConfigFieldWithDefault query_normed = {};  // whether query_norm is active; without a field it is
  QkvLayout projections = QkvLayout::apart;
  DeltaNetProjectionKind delta_net = DeltaNetProjectionKind::none;
  MlpKind mlp = MlpKind::gated;
  FamilyMoeConventions experts = {};
  std::vector<WeightRenaming> stored_names = {};
  BooleanConfigFieldWithDefault query_bias = {}, output_bias = {}, mlp_bias = {};
  BooleanConfigFieldWithDefault head_bias = {};    // of the layer that gives logits
  BooleanConfigFieldWithDefault multi_query = {};  // one key for all queries
  BooleanConfigFieldWithDefault parallel = {};     // attention and MLP read the same input
  bool shared_norm = false;                        // if parallel: one norm for both
  bool residual_last = true;                       // if parallel: added to the sum of both
  bool transposed_weights = false;                 // Conv1D instead of Linear
  bool softmax_in_float = true;                    // of eager attention
  bool scaled_embedding = false;                   // by sqrt(hidden_size)
  bool multipliers = false;                        // for embedding, attention, residuals, logits
  bool capped_logits = false;                      // final_logit_softcapping, query_pre_attn_scalar
  RotaryEmbeddingLayoutAndPrecision turning = RotaryEmbeddingLayoutAndPrecision::halves;
  bool partial_rotary = false;         // the rest of a head is not rotated
  bool skips_rotary = false;           // no_rope_layers
  bool turns_in_windows_only = false;  // only layers with a window are rotated (layer_types)
  bool turns_without_windows = false;  // but all, if there is no window at all
  bool rotary_by_layer_type = false;   // two tables
  bool rotary_alpha = false;           // a factor of theta, "alpha"
  bool xielu = false;                  // may have the activation xIELU, which has parameters
  bool sinks = false;                  // a learned score per head in each softmax: eager attention only
  bool latent = false;                 // keys and values from a narrow vector: multi-head latent attention
  bool tempered_queries = false;       // queries without rotary embedding grow with the position, "floor_scale"
  int64_t position_offset = 0;         // of the position embedding, whose positions the padding mask counts; 0: not so
  bool scaled_queries = false;         // queries are scaled by the attention scale, not the scores
  bool mlp_of_rows = false;            // all tokens as one list
  bool convolutions = false;           // layers "conv" have a short convolution instead of attention
  bool state_space = false;            // layers are mixers of Mamba-2 alone
  bool shared_keys = false;            // the last layers reuse keys and values; per-layer embeddings
  bool global_heads = false;           // layers without a window have other heads
  bool altup = false;                  // several residual streams, and sparse gates of the MLP
  bool scaled_layers = false;          // the output of each layer is multiplied by a stored number
  bool gated_attention = false;        // q_proj gives gates of the output too
  bool positions_per_row = false;      // each row of a batch has its own rotary table
  bool image_layers = false;           // cross_attention_layers, which text alone skips
  bool chunked = false;                // layers of chunked attention: sequences shorter than a chunk only
  bool grown_queries = false;          // rotated queries grow with the position, "llama_4_scaling_beta"
  bool windowed = false;               // sliding_window alone turns windows on
  bool window_needs_flag = false;      // use_sliding_window turns windows on
  int64_t window_pattern = 0;          // every n-th layer has no window, without layer_types
  bool padded = true;                  // the embedding of pad_token_id gets no gradient

  // Of older decoders.
  OlderDecoderPositionEncoding table = OlderDecoderPositionEncoding::none;
  EagerAttentionScoreFormula scoring = EagerAttentionScoreFormula::scaled;
  std::string_view activation = "silu";  // without a field
  std::string_view embedding_norm = {};  // a module after the embedding
  bool scales_embedding = false;         // scale_embedding: by sqrt(hidden_size) as a number
  bool draws_layerdrop = false;          // a random number for each layer, which drops none
  bool local_layers = false;             // attention_types, window_size
  bool differential = false;             // the difference of two attentions
  bool mscales = false;                  // short_mscale of rotary embeddings
  bool attn_config = false;              // fields of attention in an object of this name
  std::string_view only_attention = {};  // a word of --attention; "": all
  bool always_masked = false;            // sdpa gets a mask in any case, and no scale
  bool one_document = false;             // masks do not follow positions: no packed rows
  bool seen_table = false;               // has a table of seen positions that it does not read
  bool sums_in_place = false;            // if parallel: both norms first; attention is added to the MLP's output
  bool falcon_forms = false;             // new_decoder_architecture and multi_query choose norms and projections
  bool products = false;                 // linear layers are a matrix product and a sum
  bool wide_mlp = false;                 // of four hidden sizes, without its field

  // Defaults of the family for missing fields.
  bool tied = false;
  int64_t head_width = 0;  // 0: hidden / heads
  int64_t kv_heads = 0;    // 0: equal to heads
  std::optional<int64_t> padding = std::nullopt;
  double rope_theta = 10000.0, rope_theta_in_windows = 10000.0;
  double rotary_part = 1;
  double dropout = 0;
  std::string_view defaults = {};       // JSON of other fields that the class fills in
  std::string_view text_defaults = {};  // the same for a text_config, of fields that other files must have
};

const std::vector<TransformersFamilyConventions>& transformers_families();
bool has_classifier(
    const TransformersFamilyConventions& family);  // true if transformers has its ...ForSequenceClassification
const TransformersFamilyConventions* find_transformers_family(std::string_view model_type);  // null: unknown

}  // namespace memtune::model
