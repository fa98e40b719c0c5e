#include "core/model/transformers/transformers_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/transformers/transformers_delta_net.h"
#include "core/model/transformers/transformers_experts.h"
#include "core/model/transformers/transformers_forms.h"
#include "core/model/transformers/transformers_layers.h"
#include "core/model/transformers/transformers_state_space.h"
#include "core/plan/request/trial_request.h"

namespace memtune::model {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 40;

class ConfigReader {
 public:
  ConfigReader(std::string name, const nlohmann::json& given, bool is_text_config)
      : fields_(std::move(name), given, is_text_config), object_(fields_.object()), family_(fields_.family()) {
    config_.family = family_;
  }

  TransformersConfig read() {
    refuse_what_is_not_built();
    read_sizes();
    read_heads();
    if (family_.shared_keys) read_layers_apart();
    read_layer();
    read_biases();
    read_dropouts();
    read_padding();
    read_scales();
    read_multipliers();
    read_positions();
    read_layer_types();
    if (family_.image_layers) read_image_layers();
    if (family_.state_space) {
      config_.state_space = read_state_space(fields_, config_);
      config_.notes.emplace_back(
          "state space: measured with PyTorch's operators; the kernels of mamba-ssm and causal_conv1d are not "
          "measured");
    }
    if (family_.delta_net != DeltaNetProjectionKind::none) {
      config_.delta_net = read_delta_net(fields_, config_.layers);
      config_.notes.emplace_back(
          "linear attention: measured with PyTorch's operators; the kernels of fla and causal_conv1d are not measured");
    }
    if (*family_.experts.width && fields_.chosen(family_.experts.enabled))
      config_.experts = read_experts(fields_, config_.layers);
    if (config_.experts && fields_.chosen({"output_router_logits", false}))
      config_.notes.emplace_back("output_router_logits: the router's auxiliary loss is not measured");
    read_dtype();
    return std::move(config_);
  }

 private:
  void refuse_what_is_not_built() {
    if (!family_.only_attention.empty()) config_.attention = family_.only_attention;
    for (const char* field : {"attn_implementation", "_attn_implementation"}) {
      object_.read(field, config_.attention);
      if (config_.attention != "sdpa" && config_.attention != "eager")
        fields_.refuse(field, "'" + config_.attention + "' is not supported, sdpa and eager are");
    }
    check_attention(config_, config_.attention, /*packed=*/false, /*padded=*/false);
    refuse_other_classes();
    if (fields_.has("quantization_config")) read_quantization();
    if (!sees_only_images_ahead()) refuse_choice("use_bidirectional_attention", "attention to later tokens");
    if (fields_.has("clip_qkv")) fields_.refuse("clip_qkv", "clipped queries, keys and values are not supported");
    refuse_other_layers();
    refuse_choice("scale_attn_by_inverse_layer_idx", "attention whose scale follows the layer");
    refuse_choice("add_cross_attention", "attention to an encoder");
  }

  // Text has a causal mask all the same.
  bool sees_only_images_ahead() {
    const char* const field = "use_bidirectional_attention";
    return family_.global_heads && fields_.has(field) && fields_[field] == "vision";
  }

  // Fields of OPT, XGLM and Bloom.
  void refuse_other_layers() {
    double part = 0;
    object_.read("layerdrop", part);
    if (part != 0) fields_.refuse("layerdrop", "layers that are left out at random are not supported");
    if (!fields_.chosen({"do_layer_norm_before", true}))
      fields_.refuse("do_layer_norm_before", "norms after the blocks are not supported");
    if (!fields_.chosen({"layer_norm_elementwise_affine", true}))
      fields_.refuse("layer_norm_elementwise_affine", "norms without weights are not supported");
    refuse_choice("_remove_final_layer_norm", "a model without a last norm");
    refuse_choice("apply_residual_connection_post_layernorm", "a residual after the norm");
    refuse_choice("slow_but_exact", "a linear layer in slices");
    double dropped = 0;
    object_.read("activation_dropout", dropped);
    if (dropped != 0) fields_.refuse("activation_dropout", "dropout after the activation is not supported");
    if (fields_.has("word_embed_proj_dim") &&
        fields_.size("word_embed_proj_dim") != fields_.size(family_.fields.hidden))
      fields_.refuse("word_embed_proj_dim", "embeddings of another width than hidden_size are not supported");
  }

  // Names of older and newer classes end alike: LlamaForCausalLM, GPT2LMHeadModel, Gemma3ForConditionalGeneration.
  void refuse_other_classes() {
    std::vector<std::string> classes;
    object_.read("architectures", classes);
    if (!classes.empty()) config_.class_name = classes.front();
    if (config_.class_name.ends_with(kClassifier) && has_classifier(family_)) return read_classifier();
    if (config_.headless()) return;
    const auto generates = [](const std::string& name) {
      return name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel") ||
             name.ends_with("ForConditionalGeneration");
    };
    if (!classes.empty() && std::ranges::none_of(classes, generates))
      fields_.refuse("architectures",
                     classes.front() +
                         " is no language model. memtune convert makes a model.pt2 of it, with its loss; or " +
                         "measure its training command: memtune sweep -- COMMAND");
  }

  // Newer files have a name for each label, unless there are two.
  void read_classifier() {
    SequenceClassificationHeadConfig& classifier = config_.classifier.emplace();
    object_.read("num_labels", classifier.labels, 1, kMaxSize);
    if (fields_.has("id2label") && fields_["id2label"].is_object() && !fields_["id2label"].empty())
      classifier.labels = static_cast<int64_t>(fields_["id2label"].size());
    std::string problem = classifier.labels == 1 ? "regression" : "single_label_classification";
    object_.read("problem_type", problem);
    classifier.regression = problem == "regression";
    if (!classifier.regression && problem != "single_label_classification")
      fields_.refuse("problem_type", "'" + problem +
                                         "' is not supported, regression and single_label_classification are. Measure "
                                         "the training command: memtune sweep -- COMMAND");
  }

  // https://huggingface.co/docs/transformers/main_classes/quantization#transformers.BitsAndBytesConfig
  void read_quantization() {
    const std::string field = "quantization_config";
    JsonObjectReader how(fields_[field.c_str()], fields_.name() + "." + field);
    std::string method = "bitsandbytes", type = "fp4";
    bool in_4_bits = false, in_8_bits = false, nested = false;
    how.read("quant_method", method);
    if (method != "bitsandbytes")
      fields_.refuse(field,
                     "'" + method + "' weights are not supported, those of bitsandbytes are. Give a folder with " +
                         "the weights in bf16, with --load-in 4bit for QLoRA, or measure the training command: " +
                         "memtune sweep -- COMMAND");
    how.read("load_in_4bit", in_4_bits);
    how.read("load_in_8bit", in_8_bits);
    how.read("bnb_4bit_quant_type", type);
    how.read("bnb_4bit_use_double_quant", nested);
    if (in_4_bits == in_8_bits) fields_.refuse(field, "must have one of load_in_4bit and load_in_8bit");
    if (in_4_bits && type != "nf4")
      fields_.refuse(field + ".bnb_4bit_quant_type", "'" + type + "' is not supported, nf4 is");
    config_.quantization = in_8_bits ? "8bit" : nested ? "4bit" : "4bit-single";
    config_.notes.push_back("its weights are stored in " + std::string(in_8_bits ? "8" : "4") +
                            " bits: measured with --load-in " + config_.quantization + " and random weights");
    std::vector<std::string> kept;
    how.read("llm_int8_skip_modules", kept);
    std::erase(kept, "lm_head");
    if (!kept.empty()) config_.notes.push_back("llm_int8_skip_modules: measured with all linear layers quantized");
  }

  void refuse_choice(const char* field, const std::string& what) {
    if (fields_.chosen({field, false})) fields_.refuse(field, what + " is not supported");
  }

  void read_sizes() {
    const ConfigFieldNames& names = family_.fields;
    config_.vocabulary = fields_.size("vocab_size");
    config_.hidden = fields_.size(names.hidden);
    config_.layers = fields_.size(names.layers, 10000);
    const bool implied = family_.wide_mlp && !fields_.has(names.mlp);
    const bool by_layer = family_.altup && fields_.has(names.mlp) && fields_[names.mlp].is_array();
    if (implied)
      config_.mlp = 4 * config_.hidden;
    else if (!by_layer && *names.mlp)
      config_.mlp = fields_.size(names.mlp);
    if (family_.convolutions) read_convolution();
  }

  // With the width of the MLP, which these models derive from their field.
  void read_convolution() {
    ShortConvolutionConfig& convolution = config_.convolution.emplace();
    convolution.width = fields_.size("conv_L_cache", 1000);
    convolution.bias = fields_.chosen({"conv_bias", false});
    std::vector<std::string> kinds;
    object_.read("layer_types", kinds);
    if (!fields_.has("layer_types")) kinds = kinds_by_index();
    for (const std::string& kind : kinds) convolution.layers.push_back(kind == "conv");
    object_.read("block_ff_dim", config_.mlp, 1, kMaxSize);
    if (!fields_.chosen({"block_auto_adjust_ff_dim", true})) return;
    double multiplier = 1;
    object_.read("block_ffn_dim_multiplier", multiplier);
    const int64_t multiple = fields_.size("block_multiple_of");
    config_.mlp = static_cast<int64_t>(2 * static_cast<double>(config_.mlp) / 3);
    if (!fields_.was_null("block_ffn_dim_multiplier")) {
      config_.mlp = static_cast<int64_t>(multiplier * static_cast<double>(config_.mlp));
      config_.mlp = (config_.mlp + multiple - 1) / multiple * multiple;
    }
    if (config_.mlp < 1) fields_.refuse("block_ffn_dim_multiplier", "leaves no MLP");
  }

  std::vector<std::string> kinds_by_index() {
    std::vector<int64_t> full;
    object_.read("full_attn_idxs", full, 0);
    std::vector<std::string> kinds;
    for (int64_t i = 0; i < config_.layers; ++i)
      kinds.emplace_back(!fields_.has("full_attn_idxs") || std::ranges::find(full, i) != full.end() ? "full_attention"
                                                                                                    : "conv");
    return kinds;
  }

  void read_heads() {
    const char* const field = family_.fields.heads;
    config_.heads = fields_.size(field);
    config_.kv_heads = family_.kv_heads > 0 ? family_.kv_heads : config_.heads;
    config_.head_width = family_.head_width;
    if (family_.latent) return read_latent_heads();
    const char* const keys = family_.fields.kv_heads;
    const bool one_key_per_query = !*keys || family_.projections == QkvLayout::joined_by_head ||
                                   family_.projections == QkvLayout::joined_by_head_and_normed ||
                                   family_.scaled_queries;
    if (!one_key_per_query) {
      object_.read(keys, config_.kv_heads, 1, kMaxSize);
      object_.read("head_dim", config_.head_width, 1, kMaxSize);
    }
    if (fields_.chosen(family_.multi_query)) config_.kv_heads = 1;
    if (family_.projections == QkvLayout::joined_by_quarter && config_.heads % 4 != 0)
      fields_.refuse(field, std::to_string(config_.heads) + " heads have no quarters");
    if (family_.differential && config_.kv_heads % 2 != 0)
      fields_.refuse(keys, "must be even, for the difference of two attentions");
    if (family_.falcon_forms) read_falcon_form(fields_, config_);
    if (config_.head_width == 0) {
      if (config_.hidden % config_.heads != 0)
        fields_.refuse(field, std::to_string(config_.heads) + " does not divide " + family_.fields.hidden + ", " +
                                  std::to_string(config_.hidden) + ", and there is no head_dim");
      config_.head_width = config_.hidden / config_.heads;
    }
    if (config_.heads % config_.kv_heads != 0)
      fields_.refuse("num_key_value_heads", std::to_string(config_.kv_heads) + " does not divide " + field + ", " +
                                                std::to_string(config_.heads));
  }

  void read_layers_apart() {
    config_.layer_configs = read_layer_configs(fields_, config_, read_windowed_layers());
    if (family_.altup) config_.altup = read_altup(fields_);
    PerLayerEmbeddingConfig inputs;
    object_.read("hidden_size_per_layer_input", inputs.width, 0, kMaxSize);
    if (inputs.width == 0 && family_.altup) fields_.refuse("hidden_size_per_layer_input", "must be at least 1");
    if (inputs.width == 0) return;
    inputs.vocabulary = fields_.size("vocab_size_per_layer_input");
    config_.layer_inputs = inputs;
  }

  void read_latent_heads() {
    LatentAttentionConfig& latent = config_.latent.emplace();
    if (fields_.has("q_lora_rank") && !fields_.was_null("q_lora_rank")) latent.query_rank = fields_.size("q_lora_rank");
    latent.rank = fields_.size("kv_lora_rank");
    latent.plain = fields_.size("qk_nope_head_dim");
    latent.rotated = fields_.size("qk_rope_head_dim");
    latent.value = fields_.size("v_head_dim");
    latent.bias = fields_.chosen({"attention_bias", false});
    latent.interleaved = fields_.chosen({"rope_interleave", true});
    config_.head_width = latent.plain + latent.rotated;
    int64_t kv_heads = config_.heads;
    object_.read("num_key_value_heads", kv_heads, 1, kMaxSize);
    if (kv_heads != config_.heads)
      fields_.refuse("num_key_value_heads", "must be num_attention_heads, " + std::to_string(config_.heads));
  }

  void read_layer() {
    config_.epsilon = 1e-5;
    if (const char* const epsilon = family_.fields.epsilon; *epsilon) {
      object_.require({epsilon});
      object_.read(epsilon, config_.epsilon);
    }
    const char* const field = family_.fields.activation;
    config_.activation = family_.activation;
    if (*field) {
      object_.require({field});
      object_.read(field, config_.activation);
    }
    std::vector<std::string> built = {"silu", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu", "relu2"};
    if (family_.xielu) built.emplace_back("xielu");
    if (config_.activation == "swish") config_.activation = "silu";
    if (*field && std::ranges::find(built, config_.activation) == built.end())
      fields_.refuse(field, unknown_name("activation", config_.activation, built));
    config_.parallel = fields_.chosen(family_.parallel);
    config_.query_norm = family_.query_norm != QueryKeyNorm::none &&
                         (!*family_.query_normed.field || fields_.chosen(family_.query_normed));
  }

  void read_biases() {
    config_.query_bias = fields_.chosen(family_.query_bias);
    config_.output_bias = fields_.chosen(family_.output_bias);
    config_.mlp_bias = fields_.chosen(family_.mlp_bias);
    config_.head_bias = fields_.chosen(family_.head_bias);
    config_.tied = fields_.chosen({"tie_word_embeddings", family_.tied});
    if (family_.convolutions) object_.read("tie_embedding", config_.tied);
    config_.weight_deviation = 0.02;
    object_.read(family_.fields.deviation, config_.weight_deviation);
    if (!(config_.weight_deviation >= 0)) fields_.refuse(family_.fields.deviation, "must not be negative");
  }

  void read_dropouts() {
    const ConfigFieldNames& names = family_.fields;
    config_.attention_dropout = fields_.dropout(names.attention_dropout);
    if (family_.differential && config_.attention_dropout != 0)
      fields_.refuse(names.attention_dropout, "must be 0, for the difference of two attentions");
    config_.embedding_dropout = fields_.dropout(names.embedding_dropout);
    config_.attention_output_dropout = fields_.dropout(names.attention_output_dropout);
    config_.mlp_output_dropout = fields_.dropout(names.mlp_output_dropout);
    if (config_.parallel && family_.sums_in_place) {
      config_.attention_output_dropout = 0;
      std::swap(config_.sum_dropout, config_.mlp_output_dropout);
    }
  }

  // null means no padding token; a missing field means the family's default.
  void read_padding() {
    if (!fields_.was_null("pad_token_id")) config_.row_padding = family_.padding;
    int64_t token = -1;
    object_.read("pad_token_id", token, -config_.vocabulary, kMaxSize);
    if (fields_.has("pad_token_id")) config_.row_padding = token;
    if (!family_.padded) return;
    if (!fields_.was_null("pad_token_id")) config_.padding = family_.padding;
    if (fields_.has("pad_token_id") && token < 0) token += config_.vocabulary;  // from the end, as embeddings do
    if (token >= 0) config_.padding = token;
    if (config_.padding && *config_.padding >= config_.vocabulary)
      fields_.refuse("pad_token_id", std::to_string(*config_.padding) + " is no token: vocab_size is " +
                                         std::to_string(config_.vocabulary));
  }

  void read_scales() {
    auto scalar = static_cast<double>(config_.head_width);
    if (family_.shared_keys) config_.logit_cap = optional_scale("final_logit_softcapping");
    if (family_.capped_logits) {
      object_.require({"query_pre_attn_scalar"});
      object_.read("query_pre_attn_scalar", scalar);
      config_.logit_cap = optional_scale("final_logit_softcapping");
      config_.score_cap = optional_scale("attn_logit_softcapping");
    }
    config_.attention_scale = std::pow(scalar, -0.5);
    if (!(scalar > 0)) fields_.refuse("query_pre_attn_scalar", "must be more than 0");
    if (family_.shared_keys) config_.attention_scale = 1;
    if (!fields_.chosen({"scale_attn_weights", true})) config_.attention_scale = 1;
  }

  std::optional<double> optional_scale(const char* field) {
    if (!fields_.has(field)) return std::nullopt;
    double scale = 0;
    object_.read(field, scale);
    if (!(scale > 0)) fields_.refuse(field, "must be more than 0");
    return scale;
  }

  void read_multipliers() {
    if (const char* const field = family_.fields.logit_scale; *field) {
      object_.require({field});
      config_.logit_scale = optional_scale(field);
    }
    if (family_.scales_embedding && fields_.chosen({"scale_embedding", true}))
      config_.embedding_multiplier = std::sqrt(static_cast<double>(config_.hidden));
    if (family_.attn_config) read_attn_config(fields_, config_);
    if (!family_.multipliers) return;
    object_.require({"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"});
    object_.read("embedding_multiplier", config_.embedding_multiplier);
    object_.read("residual_multiplier", config_.residual_multiplier);
    object_.read("attention_multiplier", config_.attention_scale);
    object_.read("logits_scaling", config_.logits_divisor);
  }

  void read_positions() {
    if (const char* const field = family_.fields.positions; *field) {
      config_.positions = fields_.size(field);
      limit(config_.positions);
    } else if (!family_.state_space && family_.table == OlderDecoderPositionEncoding::none) {
      int64_t width = config_.latent ? config_.latent->rotated : config_.head_width, full = width;
      for (const PerLayerConfigOverrides& layer : config_.layer_configs)
        (layer.windowed ? width : full) = layer.head_width;
      config_.rotary = read_rotary(fields_, width, full);
      if (config_.latent) {
        const double scale = config_.rotary.front().score_scale;
        config_.attention_scale = config_.attention_scale * scale * scale;  // in this order, as in Python
      }
      if (family_.grown_queries) read_query_growth();
      if (family_.tempered_queries && fields_.chosen({"attn_temperature_tuning", true})) {
        object_.read("floor_scale", config_.query_period, 1, kMaxPositions);
        object_.read("attn_scale", config_.query_temperature.emplace());
      }
      for (const RotaryConfig& rotary : config_.rotary) limit(rotary.longest);
    }
    if (family_.table == OlderDecoderPositionEncoding::rotary ||
        family_.table == OlderDecoderPositionEncoding::rotary_in_float)
      config_.table_width = read_table_width(fields_, config_.head_width);
    if (family_.local_layers) config_.table_windows = read_local_layers(fields_, config_.layers);
    config_.turned_by.assign(config_.layers, config_.rotary.empty() ? -1 : 0);
  }

  void read_query_growth() {
    const char* const field = "rope_parameters";
    if (!fields_.has(field)) fields_.refuse(field, "is missing");
    JsonObjectReader scaling(fields_[field], fields_.name() + "." + field);
    scaling.require({"llama_4_scaling_beta", "original_max_position_embeddings"});
    scaling.read("llama_4_scaling_beta", config_.query_growth);
    scaling.read("original_max_position_embeddings", config_.query_period, 1, kMaxPositions);
  }

  void limit(int64_t longest) {
    if (longest > 0 && (config_.longest == 0 || longest < config_.longest)) config_.longest = longest;
  }

  // Layers with and without a sliding window use different rotary tables, or only one kind is rotated.
  void read_layer_types() {
    const std::optional<int64_t> window = read_window();
    const std::vector<bool> windowed = read_windowed_layers();
    const bool all_windowed = family_.windowed && family_.window_pattern == 0 && !fields_.has("layer_types");
    if (window && family_.window_needs_flag && !fields_.has("layer_types"))
      limit(std::max<int64_t>(*window - 1, 1));  // fields that are not read choose the layers
    std::vector<int64_t> rotary;
    object_.read("no_rope_layers", rotary, 0);
    int64_t interval = 4;
    object_.read("no_rope_layer_interval", interval, 1, kMaxPositions);
    if (rotary.empty())
      for (int64_t i = 0; i < config_.layers; ++i) rotary.push_back((i + 1) % interval != 0 ? 1 : 0);
    if (family_.skips_rotary && rotary.size() != static_cast<size_t>(config_.layers))
      fields_.refuse("no_rope_layers", "must have num_hidden_layers numbers, " + std::to_string(config_.layers));
    for (int64_t i = 0; i < config_.layers; ++i) {
      config_.windows.push_back(window && (windowed[i] || all_windowed) ? *window : 0);
      if (family_.skips_rotary && rotary[i] == 0) config_.turned_by[i] = -1;
      const bool all_turned = !family_.turns_in_windows_only || (family_.turns_without_windows && !window);
      if (!all_turned && !(windowed[i] && window)) config_.turned_by[i] = -1;
      if (family_.rotary_by_layer_type) config_.turned_by[i] = windowed[i] ? 1 : 0;
    }
  }

  void read_image_layers() {
    if (config_.tied) fields_.refuse("tie_word_embeddings", "the embedding has more rows than the head");
    std::vector<int64_t> layers;
    object_.read("cross_attention_layers", layers, 0);
    for (int64_t i = 0; i < config_.layers; ++i)
      config_.image_layers.push_back(std::ranges::find(layers, i) != layers.end());
    config_.notes.emplace_back("cross_attention_layers: their weights take memory; text alone does not train them");
  }

  std::optional<int64_t> read_window() {
    bool windowed = family_.windowed;
    if (family_.window_needs_flag) object_.read("use_sliding_window", windowed);
    int64_t window = 0;
    object_.read("sliding_window", window, 0, kMaxPositions);
    return windowed && window > 0 ? std::optional(window) : std::nullopt;
  }

  std::vector<bool> read_windowed_layers() {
    std::vector<std::string> kinds;
    object_.read("layer_types", kinds);
    int64_t pattern = family_.window_pattern;
    object_.read("sliding_window_pattern", pattern, 0, kMaxPositions);
    int64_t first = config_.layers;  // with a window, where the pattern gives none
    if (family_.window_pattern == 1) object_.read("max_window_layers", first, 0, kMaxPositions);
    if (!fields_.has("layer_types"))
      for (int64_t i = 0; i < config_.layers; ++i)
        kinds.emplace_back((pattern > 0 && (i + 1) % pattern != 0) || i >= first ? "sliding_attention"
                                                                                 : "full_attention");
    if (family_.global_heads && !kinds.empty()) kinds.back() = "full_attention";
    if (kinds.size() != static_cast<size_t>(config_.layers))
      fields_.refuse("layer_types", "must have num_hidden_layers names, " + std::to_string(config_.layers));
    std::vector<bool> windowed;
    for (const std::string& kind : kinds) {
      if (family_.chunked && kind == "chunked_attention")
        limit_to_chunk();
      else if (kind != "full_attention" && kind != "sliding_attention" && !replaces_attention(kind))
        fields_.refuse("layer_types", "'" + kind + "' is not supported");
      windowed.push_back(kind == "sliding_attention");
    }
    return windowed;
  }

  bool replaces_attention(const std::string& kind) const {
    return (family_.convolutions && kind == "conv") || (family_.state_space && kind == "linear_attention") ||
           (family_.delta_net != DeltaNetProjectionKind::none && kind == "linear_attention");
  }

  // A sequence that fills a chunk has a mask.
  void limit_to_chunk() {
    int64_t chunk = 0;
    object_.read("attention_chunk_size", chunk, 2, kMaxPositions);
    if (chunk > 0) limit(chunk - 1);
  }

  void read_dtype() {
    std::string dtype;
    object_.read("torch_dtype", dtype);
    object_.read("dtype", dtype);
    try {
      if (!dtype.empty()) config_.dtype = plan::canonical_dtype(dtype);
    } catch (const UsageError& error) {
      fields_.refuse("dtype", error.what());
    }
  }

  ConfigFieldReader fields_;
  JsonObjectReader& object_;
  const TransformersFamilyConventions& family_;
  TransformersConfig config_;
};

// With what is common to all parts of the model. Older files of some models have its fields beside those of the whole.
nlohmann::json text_config_of(const nlohmann::json& whole) {
  if (!has_text_config(whole)) {
    nlohmann::json text = whole;
    text["model_type"] = text_type_of(whole);
    return text;
  }
  nlohmann::json text = whole["text_config"];
  for (const char* field : {"dtype", "torch_dtype", "quantization_config", "tie_word_embeddings", "pad_token_id"})
    if (!text.contains(field) && whole.contains(field)) text[field] = whole[field];
  return text;
}

}  // namespace

TransformersConfig with_score(TransformersConfig config) {
  if (!has_classifier(config.family))
    throw UsageError("--loss reward: transformers has no " + std::string(config.family.class_prefix) +
                     std::string(kClassifier) + "; measure the training command: memtune sweep -- COMMAND");
  config.classifier = SequenceClassificationHeadConfig{1, /*regression=*/true};
  return config;
}

void check_attention(const TransformersConfig& config, const std::string& attention, bool packed, bool padded) {
  const std::string family(config.family.model_type), only(config.family.only_attention);
  if (!only.empty() && attention != only)
    throw UsageError("--attention " + attention + ": " + family + " is written with " + only + " attention alone");
  if (config.family.one_document && packed)
    throw UsageError("--pack: the masks of " + family + " do not separate documents");
  if ((config.convolution || config.delta_net || config.state_space) && (packed || padded))
    throw UsageError(std::string(packed ? "--pack" : "--padding") + ": " + family +
                     " has convolutions, which would reach over the ends of " + (packed ? "documents" : "rows"));
}

void check_load_in(const TransformersConfig& config, const std::string& load_in) {
  if (config.altup && !load_in.empty())
    throw UsageError("--load-in " + load_in + ": " + std::string(config.family.model_type) +
                     " clamps weights of linear layers in each step, which packed weights do not allow");
}

TransformersConfig parse_transformers_config(const std::string& name, std::string_view text, bool text_only) {
  const nlohmann::json given = parse_json_object(name, with_infinity_as_object(text));
  if (!text_only || (!has_text_config(given) && text_type_of(given).empty()))
    return ConfigReader(name, given, /*is_text_config=*/false).read();
  const nlohmann::json inner = text_config_of(given);
  const std::string where = has_text_config(given) ? name + ".text_config" : name;
  TransformersConfig config = ConfigReader(where, inner, /*is_text_config=*/true).read();
  config.notes.push_back("measured as text: " + std::string(config.family.model_type) +
                         " without the other modalities");
  return config;
}

TransformersConfig read_transformers_config(const std::filesystem::path& path, bool text_only) {
  return parse_transformers_config(path.filename().string(), read_file(path), text_only);
}

}  // namespace memtune::model
