// A decoder of transformers as its config.json describes it, old names of fields and defaults resolved. A field that is
// null counts as missing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/transformers_family.h"

namespace memtune::config {

enum class RotaryKind { plain, linear, llama3 };

struct Rotary {
  RotaryKind kind = RotaryKind::plain;
  double theta = 0;
  double factor = 1;                             // linear, llama3
  double low_frequency = 1, high_frequency = 1;  // llama3: factors
  double trained_positions = 0;                  // llama3
  int64_t width = 0;                             // of a head, that turns
};

struct TransformersConfig {
  TransformersFamily family;
  int64_t vocabulary = 0, hidden = 0, layers = 0, mlp = 0;
  int64_t heads = 0, kv_heads = 0, head_width = 0;
  std::optional<int64_t> padding;  // the token whose embedding is not trained
  bool tied = false;               // lm_head has the embedding's weight
  bool query_bias = false, output_bias = false, mlp_bias = false;
  double epsilon = 0;
  std::string activation;  // silu | gelu | gelu_pytorch_tanh
  double weight_deviation = 0;
  double attention_dropout = 0, attention_scale = 0;
  Rotary rotary;
  std::vector<bool> turns;  // by layer: whether it has the rotary embedding
  std::optional<double> logit_cap;
  double embedding_multiplier = 1, residual_multiplier = 1, logits_divisor = 1;
  std::optional<int64_t> window;  // sequences as long or longer need a mask, which is not built
  std::string dtype;              // canonical; float32 when the config does not tell
};

// UsageError, one line that begins with `name`: a field that is missing, out of range, contradicts another or asks for
// what is not built; a model_type that is in no row, with what to do instead.
TransformersConfig parse_transformers_config(const std::string& name, std::string_view json);
TransformersConfig read_transformers_config(const std::filesystem::path& path);

// The safetensors files beside a config.json that hold its weights: model.safetensors, or the shards that
// model.safetensors.index.json names. Empty: there are none. UsageError for an index that makes no sense.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& config);

}  // namespace memtune::config
