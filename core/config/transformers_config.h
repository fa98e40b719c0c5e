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
#include "core/config/transformers_rotary.h"

namespace memtune::config {

struct Experts {
  int64_t count = 0, chosen = 0;  // of them, for each token
  int64_t width = 0, shared_width = 0;
  bool normed = false;       // weights of the chosen add up to one
  std::vector<bool> layers;  // which have them in place of an MLP
};

struct TransformersConfig {
  TransformersFamily family;
  int64_t vocabulary = 0, hidden = 0, layers = 0, mlp = 0;
  int64_t heads = 0, kv_heads = 0, head_width = 0;
  int64_t positions = 0;           // rows of a table of positions; 0: there is none
  std::optional<int64_t> padding;  // the token whose embedding is not trained
  bool tied = false;               // lm_head has the embedding's weight
  bool query_bias = false, output_bias = false, mlp_bias = false;
  bool query_norm = false, parallel = false;
  double epsilon = 0;
  std::string activation;  // silu | gelu | gelu_pytorch_tanh | gelu_new | relu
  double weight_deviation = 0;
  std::string attention = "sdpa";  // or eager
  double attention_dropout = 0, embedding_dropout = 0, attention_output_dropout = 0, mlp_output_dropout = 0;
  double attention_scale = 0;
  std::vector<Rotary> rotary;
  std::vector<int> turned_by;  // by layer: which of `rotary`, -1: none
  std::optional<Experts> experts;
  std::optional<double> logit_cap, logit_scale;
  double embedding_multiplier = 1, residual_multiplier = 1, logits_divisor = 1;
  std::vector<int64_t> windows;     // by layer: so many keys a query sees at most; 0: any number
  std::optional<double> score_cap;  // of attention that is eager: sdpa knows none
  int64_t longest = 0;              // sequence; beyond it is a table that is not built. 0: any
  std::string dtype;                // canonical; "" when the config does not tell
};

// UsageError, one line that begins with `name`: a field that is missing, out of range, contradicts another or asks for
// what is not built; a model_type that is in no row, with what to do instead.
TransformersConfig parse_transformers_config(const std::string& name, std::string_view json);
TransformersConfig read_transformers_config(const std::filesystem::path& path);

}  // namespace memtune::config
