// A decoder of transformers as described by its config.json. Old field names and defaults are resolved; null counts as
// missing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/transformers/transformers_family_conventions.h"
#include "core/model/transformers/transformers_rotary.h"

namespace memtune::model {

struct MoeConfig {
  int64_t count = 0, chosen = 0;          // number of experts; experts per token
  int64_t groups = 1, chosen_groups = 1;  // of routers in groups
  double least_sum = 0;                   // of RouterKind::biased_softmax: the weights are divided by at least this
  double scale = 1;                       // of the router's weights
  double far = 0;                         // RouterKind::sparse_mixer: experts so far from the best are not drawn
  int64_t width = 0, shared_width = 0;
  bool normed = false;       // router weights of the chosen experts sum to one
  std::vector<bool> layers;  // layers with experts instead of an MLP
};

// Multi-head latent attention: a vector of `rank` per token gives the keys' plain part and the values of all heads; a
// rotated part of keys is common to all heads.
struct LatentAttentionConfig {
  int64_t query_rank = 0;  // 0: queries come from the input directly
  int64_t rank = 0;
  int64_t plain = 0, rotated = 0, value = 0;  // widths per head
  bool bias = false;                          // of the layers that give the narrow vectors
  bool interleaved = true;                    // adjacent elements of the rotated part are pairs
};

// Causal, over each channel by itself.
struct ShortConvolutionConfig {
  int64_t width = 0;  // of the kernel, in tokens
  bool bias = false;
  std::vector<bool> layers;  // that have it instead of attention
};

struct DeltaNetConfig {
  int64_t key_heads = 0, value_heads = 0;
  int64_t key_width = 0, value_width = 0;  // per head
  int64_t kernel = 0;                      // of the convolution, in tokens
  bool joined = false;                     // DeltaNetProjectionKind::joined
  std::vector<bool> layers;                // that have it instead of attention
};

// A selective state space with the heads of the config.
struct StateSpaceConfig {
  int64_t state = 0, groups = 0;  // state: numbers per element of a head; groups of heads have one projection
  int64_t chunk = 0, kernel = 0;  // in tokens
  bool convolution_bias = true;
  bool residual_in_float = true;
  double least_step = 0, most_step = 0;
};

// What differs between layers. Layers of one type, with a window or without, have equal heads.
struct PerLayerConfigOverrides {
  int64_t head_width = 0, kv_heads = 0, mlp = 0;
  bool windowed = false;
  bool reuses_keys = false;      // keys and values of the last layer of its type that computes them
  bool values_are_keys = false;  // one projection gives both
  double sparsity = 0;           // part of the MLP's gates that are cut off
};

// Alternating updates: several residual streams, of which a layer computes one.
struct AltupConfig {
  int64_t streams = 0, active = 0;
  std::optional<double> clip;  // most that a coefficient is
  int64_t laurel_rank = 0;
};

// A second embedding gives each layer a vector per token.
struct PerLayerEmbeddingConfig {
  int64_t vocabulary = 0, width = 0;
};

inline constexpr std::string_view kClassifier = "ForSequenceClassification";  // end of the class's name

// The layer "score" of ...ForSequenceClassification, which reads the last token of each row.
struct SequenceClassificationHeadConfig {
  int64_t labels = 2;
  bool regression = false;  // the loss is the mean squared error, else the cross entropy
};

struct TransformersConfig {
  TransformersFamilyConventions family;
  std::string class_name;  // first of `architectures`; "": none
  // True for ...Model, which has no layer after its last norm.
  bool headless() const { return class_name.ends_with("Model") && !class_name.ends_with("HeadModel"); }
  int64_t vocabulary = 0, hidden = 0, layers = 0, mlp = 0;
  int64_t heads = 0, kv_heads = 0, head_width = 0;
  std::optional<LatentAttentionConfig> latent;
  int64_t value_width() const { return latent ? latent->value : head_width; }
  std::vector<PerLayerConfigOverrides> layer_configs;  // empty: all layers are alike
  std::optional<PerLayerEmbeddingConfig> layer_inputs;
  std::vector<bool> image_layers;  // of layers that attend to images, which text skips
  std::optional<AltupConfig> altup;
  double sparsity = 0;  // of PerLayerConfigOverrides, while a layer is written
  // Tokens that all embeddings have.
  int64_t tokens() const { return layer_inputs ? std::min(vocabulary, layer_inputs->vocabulary) : vocabulary; }
  int64_t positions = 0;                                       // rows of the position embedding; 0: none
  std::optional<int64_t> padding;                              // token whose embedding is not trained
  std::optional<int64_t> row_padding;                          // token that fills rows
  std::optional<SequenceClassificationHeadConfig> classifier;  // nullopt: a language model
  bool tied = false;                                           // lm_head shares the embedding's weight
  bool query_bias = false, output_bias = false, mlp_bias = false, head_bias = false;
  bool query_norm = false, parallel = false;
  double epsilon = 0;
  int64_t table_width = 0;             // OlderDecoderPositionEncoding::rotary: rotated part of a head
  std::vector<int64_t> table_windows;  // by layer, of EagerAttentionScoreFormula::seen_by_table; 0: unlimited
  std::optional<double> clipped;       // queries, keys and values are clamped to this
  std::string activation;              // silu | gelu | gelu_pytorch_tanh | gelu_new | relu | relu2 | xielu | bloom_gelu
  double weight_deviation = 0;
  std::string attention = "sdpa";  // sdpa or eager
  double attention_dropout = 0, embedding_dropout = 0, attention_output_dropout = 0, mlp_output_dropout = 0;
  double sum_dropout = 0;  // of the sum of both, if parallel
  double attention_scale = 0;
  std::vector<RotaryConfig> rotary;
  std::optional<double> query_temperature;  // tempered_queries: times log1p of whole periods
  double query_growth = 0;                  // grown_queries: by log(1 + floor(position / query_period))
  int64_t query_period = 0;
  std::vector<int> turned_by;  // by layer: index into `rotary`; -1: none
  std::optional<MoeConfig> experts;
  std::optional<ShortConvolutionConfig> convolution;
  std::optional<DeltaNetConfig> delta_net;
  std::optional<StateSpaceConfig> state_space;
  std::optional<double> logit_cap, logit_scale;
  double embedding_multiplier = 1, residual_multiplier = 1, logits_divisor = 1;
  std::vector<int64_t> windows;     // by layer: most keys a query attends to; 0: unlimited
  std::optional<double> score_cap;  // softcap of attention scores; eager only, sdpa has none
  int64_t longest = 0;              // longest supported sequence; 0: unlimited
  std::string dtype;                // canonical; "" if not in the config
  std::string quantization;         // a word of kQuantizations: how the folder stores linear weights; "": as they are
  std::vector<std::string> notes;   // differences between the config and what is built
};

// Throws UsageError if the model has no such attention, a word of --attention, or takes no packed or padded rows.
void check_attention(const TransformersConfig& config, const std::string& attention, bool packed, bool padded);

// The config with a single score per row, as TRL's RewardTrainer loads a model. Throws UsageError if transformers has
// no such class.
TransformersConfig with_score(TransformersConfig config);

// Throws UsageError if the weights cannot be packed. `load_in`: a word of --load-in; "": they are as stored.
void check_load_in(const TransformersConfig& config, const std::string& load_in);

// Throws UsageError with one line that begins with `name`: a field that is missing, out of range, contradictory or not
// supported. For an unknown model_type the message gives an alternative.
// A file of a class ...ForSequenceClassification has a classifier.
// `text_only`: of a model of several modalities, takes the text model that its text_config describes.
TransformersConfig parse_transformers_config(const std::string& name, std::string_view json, bool text_only = false);
TransformersConfig read_transformers_config(const std::filesystem::path& path, bool text_only);

}  // namespace memtune::model
