#include "core/config/transformers_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/config/json_object.h"
#include "core/config/trial_request.h"

namespace memtune::config {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kMost = int64_t{1} << 24;  // keeps products of two sizes far from overflow

// Without what is null, here and in the objects within.
json without_nulls(const json& object) {
  json kept = json::object();
  for (const auto& [key, value] : object.items())
    if (!value.is_null()) kept[key] = value.is_object() ? without_nulls(value) : value;
  return kept;
}

json parse_object(const std::string& name, std::string_view text) {
  json parsed;
  try {
    parsed = parse_json(text, EqualKeys::refused);
  } catch (const json::parse_error& error) {
    throw UsageError(name + " is not JSON: byte " + std::to_string(error.byte));
  } catch (const json::exception& error) {
    throw UsageError(name + ": " + error.what());
  }
  if (!parsed.is_object()) throw UsageError(name + " must be an object");
  return parsed;
}

const TransformersFamily& family_of(const std::string& name, JsonObject& object) {
  object.require({"model_type"});
  std::string type;
  object.read("model_type", type);
  if (const TransformersFamily* family = find_transformers_family(type)) return *family;
  std::vector<std::string> known;
  for (const TransformersFamily& family : transformers_families()) known.emplace_back(family.model_type);
  throw UsageError(name + ": " + unknown_name("model_type", type, known) +
                   ". Record others with torch.jit.trace, as the README shows under \"Your own model\"");
}

class ConfigReader {
 public:
  ConfigReader(std::string name, const json& given)
      : name_(std::move(name)), given_(given), known_(without_nulls(given)), object_(known_, name_) {
    config_.family = family_of(name_, object_);
  }

  TransformersConfig read() {
    refuse_what_is_not_built();
    read_sizes();
    read_heads();
    read_layer();
    read_padding();
    read_rotary();
    read_scales();
    read_window();
    read_dtype();
    return std::move(config_);
  }

 private:
  [[noreturn]] void refuse(const std::string& field, const std::string& why) const {
    throw UsageError(name_ + "." + field + ": " + why);
  }

  void refuse_what_is_not_built() {
    std::string attention = "sdpa";
    bool both_ways = false;
    double dropout = 0;
    for (const char* field : {"attn_implementation", "_attn_implementation"}) {
      object_.read(field, attention);
      if (attention != "sdpa") refuse(field, "'" + attention + "' is not built, sdpa is");
    }
    object_.read("use_bidirectional_attention", both_ways);
    if (both_ways) refuse("use_bidirectional_attention", "attention to later tokens is not built");
    if (known_.contains("quantization_config")) refuse("quantization_config", "quantized weights are not built");
    if (config_.family.fused) object_.read("resid_pdrop", dropout);
    if (dropout != 0) refuse("resid_pdrop", "dropout of the residuals is not built");
  }

  void size(const char* field, int64_t& out, int64_t most = kMost) {
    object_.require({field});
    object_.read(field, out, 1, most);
  }

  void read_sizes() {
    size("vocab_size", config_.vocabulary);
    size("hidden_size", config_.hidden);
    size("intermediate_size", config_.mlp);
    size("num_hidden_layers", config_.layers, 10000);
  }

  void read_heads() {
    const TransformersFamily& family = config_.family;
    size("num_attention_heads", config_.heads);
    config_.kv_heads = family.kv_heads > 0 ? family.kv_heads : config_.heads;
    config_.head_width = family.head_width;
    object_.read("num_key_value_heads", config_.kv_heads, 1, kMost);
    object_.read("head_dim", config_.head_width, 1, kMost);
    if (config_.head_width == 0) {
      if (config_.hidden % config_.heads != 0)
        refuse("num_attention_heads", std::to_string(config_.heads) + " does not divide hidden_size, " +
                                          std::to_string(config_.hidden) + ", and there is no head_dim");
      config_.head_width = config_.hidden / config_.heads;
    }
    if (config_.heads % config_.kv_heads != 0)
      refuse("num_key_value_heads", std::to_string(config_.kv_heads) + " does not divide num_attention_heads, " +
                                        std::to_string(config_.heads));
    if (config_.kv_heads < config_.heads && config_.head_width > 256)
      refuse("head_dim", "grouped heads wider than 256 are not built");
  }

  void read_layer() {
    const TransformersFamily& family = config_.family;
    bool bias = false;
    object_.require({"rms_norm_eps"});
    object_.read("rms_norm_eps", config_.epsilon);
    const std::string field(family.activation);
    object_.require({field.c_str()});
    object_.read(field.c_str(), config_.activation);
    const std::vector<std::string> built = {"silu", "gelu", "gelu_pytorch_tanh"};
    if (config_.activation == "swish") config_.activation = "silu";
    if (std::ranges::find(built, config_.activation) == built.end())
      refuse(field, unknown_name("activation", config_.activation, built));
    if (family.attention_bias) object_.read("attention_bias", bias);
    config_.query_bias = bias || family.query_bias;
    config_.output_bias = bias;
    if (family.mlp_bias) object_.read("mlp_bias", config_.mlp_bias);
    config_.tied = family.tied;
    object_.read("tie_word_embeddings", config_.tied);
    config_.weight_deviation = 0.02;
    object_.read("initializer_range", config_.weight_deviation);
    if (!(config_.weight_deviation >= 0)) refuse("initializer_range", "must not be negative");
  }

  // Null is no padding here, where a missing field is the family's.
  void read_padding() {
    if (!given_.contains("pad_token_id")) config_.padding = config_.family.padding;
    int64_t token = -1;
    object_.read("pad_token_id", token, 0, kMost);
    if (token >= 0) config_.padding = token;
    if (config_.padding && *config_.padding >= config_.vocabulary)
      refuse("pad_token_id",
             std::to_string(*config_.padding) + " is no token: vocab_size is " + std::to_string(config_.vocabulary));
  }

  // "rope_parameters", as transformers writes it since 5.0; else "rope_scaling" and fields of the config.
  void read_rotary() {
    Rotary& rotary = config_.rotary;
    const bool now = known_.contains("rope_parameters");
    const char* const field = now ? "rope_parameters" : "rope_scaling";
    const json none = json::object();
    JsonObject scaling(known_.contains(field) ? known_[field] : none, name_ + "." + field);
    std::string kind = "default";
    scaling.read("type", kind);
    scaling.read("rope_type", kind);
    rotary.theta = config_.family.rope_theta;
    object_.read("rope_theta", rotary.theta);
    const double outside = rotary.theta;
    scaling.read("rope_theta", rotary.theta);
    if (known_.contains("rope_theta") && rotary.theta != outside)
      refuse("rope_theta", "contradicts that of " + std::string(field));
    if (!(rotary.theta > 0)) refuse("rope_theta", "must be more than 0");
    read_turned_part(scaling);
    read_frequencies(scaling, kind);
  }

  void read_turned_part(JsonObject& scaling) {
    double part = 1;
    object_.read("partial_rotary_factor", part);
    scaling.read("partial_rotary_factor", part);
    if (!(part > 0 && part <= 1)) refuse("partial_rotary_factor", "must be more than 0 and at most 1");
    if (part != 1 && !config_.family.partial_rotary)
      refuse("partial_rotary_factor",
             "heads that turn in part are not built for " + std::string(config_.family.model_type));
    config_.rotary.width = static_cast<int64_t>(static_cast<double>(config_.head_width) * part);
    if (config_.rotary.width < 2 || config_.rotary.width % 2 != 0)
      refuse("head_dim", "the part of a head that turns must be even, not " + std::to_string(config_.rotary.width));
  }

  void read_frequencies(JsonObject& scaling, const std::string& kind) {
    Rotary& rotary = config_.rotary;
    if (kind == "default") return;
    if (kind != "linear" && kind != "llama3")
      throw UsageError(scaling.path("rope_type") + ": '" + kind + "' is not built; default, linear and llama3 are");
    scaling.require({"factor"});
    scaling.read("factor", rotary.factor);
    if (!(rotary.factor >= 1)) throw UsageError(scaling.path("factor") + " must be 1 or more");
    rotary.kind = kind == "linear" ? RotaryKind::linear : RotaryKind::llama3;
    if (kind == "linear") return;
    scaling.require({"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
    scaling.read("low_freq_factor", rotary.low_frequency);
    scaling.read("high_freq_factor", rotary.high_frequency);
    scaling.read("original_max_position_embeddings", rotary.trained_positions);
    if (!(rotary.low_frequency > 0 && rotary.high_frequency > rotary.low_frequency && rotary.trained_positions > 0))
      throw UsageError(scaling.path("high_freq_factor") + " must be more than low_freq_factor, and all more than 0");
  }

  void read_scales() {
    double scalar = static_cast<double>(config_.head_width);
    if (config_.family.capped_logits) {
      object_.require({"query_pre_attn_scalar"});
      object_.read("query_pre_attn_scalar", scalar);
      if (object_.find("final_logit_softcapping")) object_.read("final_logit_softcapping", config_.logit_cap.emplace());
      if (config_.logit_cap && !(*config_.logit_cap > 0)) refuse("final_logit_softcapping", "must be more than 0");
    }
    config_.attention_scale = std::pow(scalar, -0.5);
    if (!(scalar > 0)) refuse("query_pre_attn_scalar", "must be more than 0");
    object_.read("attention_dropout", config_.attention_dropout);
    if (!(config_.attention_dropout >= 0 && config_.attention_dropout < 1))
      refuse("attention_dropout", "must be from 0 to below 1");
    if (!config_.family.multipliers) return;
    object_.require({"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"});
    object_.read("embedding_multiplier", config_.embedding_multiplier);
    object_.read("residual_multiplier", config_.residual_multiplier);
    object_.read("attention_multiplier", config_.attention_scale);
    object_.read("logits_scaling", config_.logits_divisor);
  }

  void read_window() {
    std::vector<int64_t> rotary;
    object_.read("no_rope_layers", rotary, 0);
    if (config_.family.skips_rotary && rotary.size() != static_cast<size_t>(config_.layers))
      refuse("no_rope_layers", "must have num_hidden_layers numbers, " + std::to_string(config_.layers));
    config_.turns.assign(config_.layers, true);
    for (size_t i = 0; config_.family.skips_rotary && i < rotary.size(); ++i) config_.turns[i] = rotary[i] != 0;
    std::vector<std::string> kinds;
    object_.read("layer_types", kinds);
    if (known_.contains("layer_types") && kinds.size() != static_cast<size_t>(config_.layers))
      refuse("layer_types", "must have num_hidden_layers names, " + std::to_string(config_.layers));
    for (const std::string& kind : kinds)
      if (kind != "full_attention" && kind != "sliding_attention") refuse("layer_types", "'" + kind + "' is not built");
    bool windowed = config_.family.windowed;
    if (config_.family.window_is_asked_for) object_.read("use_sliding_window", windowed);
    int64_t window = 0;
    object_.read("sliding_window", window, 1, std::numeric_limits<int64_t>::max());
    if (windowed && window > 0) config_.window = window;
  }

  void read_dtype() {
    std::string dtype = "float32";
    object_.read("torch_dtype", dtype);
    object_.read("dtype", dtype);
    try {
      config_.dtype = canonical_dtype(dtype);
    } catch (const UsageError& error) {
      refuse("dtype", error.what());
    }
  }

  std::string name_;
  const json& given_;
  json known_;
  JsonObject object_;
  TransformersConfig config_;
};

}  // namespace

TransformersConfig parse_transformers_config(const std::string& name, std::string_view text) {
  const json given = parse_object(name, text);
  return ConfigReader(name, given).read();
}

TransformersConfig read_transformers_config(const fs::path& path) {
  return parse_transformers_config(path.filename().string(), read_file(path));
}

std::vector<fs::path> weight_files(const fs::path& config) {
  const fs::path folder = config.parent_path(), whole = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(whole)) return {whole};
  if (!fs::exists(index)) return {};
  const std::string name = index.filename().string();
  const json parsed = parse_object(name, read_file(index));
  if (!parsed.contains("weight_map") || !parsed["weight_map"].is_object())
    throw UsageError(name + ".weight_map is missing");
  std::vector<fs::path> files;
  for (const auto& [tensor, file] : parsed["weight_map"].items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
      throw UsageError(name + ".weight_map." + tensor + " must be a file's name");
    const fs::path path = folder / file.get<std::string>();
    if (!fs::exists(path))
      throw UsageError(name + ": there is no " + path.filename().string() + ", which has " + tensor);
    if (std::ranges::find(files, path) == files.end()) files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace memtune::config
