#include "core/config/transformers_family.h"

namespace memtune::config {

const std::vector<TransformersFamily>& transformers_families() {
  static const std::vector<TransformersFamily> families = {
      {.model_type = "llama", .class_prefix = "Llama", .attention_bias = true, .mlp_bias = true},
      {.model_type = "mistral", .class_prefix = "Mistral", .windowed = true, .kv_heads = 8},
      {.model_type = "qwen2", .class_prefix = "Qwen2", .query_bias = true, .window_is_asked_for = true, .kv_heads = 32},
      {.model_type = "qwen3",
       .class_prefix = "Qwen3",
       .query_norm = QueryNorm::per_head,
       .attention_bias = true,
       .window_is_asked_for = true,
       .head_width = 128,
       .kv_heads = 32},
      {.model_type = "gemma",
       .class_prefix = "Gemma",
       .norm = NormKind::rms_plus_one,
       .attention_bias = true,
       .scaled_embedding = true,
       .tied = true,
       .head_width = 256,
       .kv_heads = 16,
       .padding = 0},
      {.model_type = "gemma2",
       .class_prefix = "Gemma2",
       .norm = NormKind::rms_plus_one,
       .norm_after = true,
       .attention_bias = true,
       .scaled_embedding = true,
       .capped_logits = true,
       .windowed = true,
       .activation = "hidden_activation",
       .tied = true,
       .head_width = 256,
       .kv_heads = 4,
       .padding = 0},
      {.model_type = "phi3",
       .class_prefix = "Phi3",
       .fused = true,
       .partial_rotary = true,
       .windowed = true,
       .padding = 32000},
      {.model_type = "granite",
       .class_prefix = "Granite",
       .attention_bias = true,
       .mlp_bias = true,
       .multipliers = true},
      {.model_type = "olmo2",
       .class_prefix = "Olmo2",
       .norm = NormKind::rms_weight_in_float,
       .norm_before = false,
       .norm_after = true,
       .query_norm = QueryNorm::whole,
       .attention_bias = true,
       .rotary_in_float = true,
       .padding = 1},
      {.model_type = "smollm3",
       .class_prefix = "SmolLM3",
       .attention_bias = true,
       .mlp_bias = true,
       .skips_rotary = true,
       .window_is_asked_for = true,
       .tied = true,
       .kv_heads = 4,
       .padding = 128004,
       .rope_theta = 2000000.0},
  };
  return families;
}

const TransformersFamily* find_transformers_family(std::string_view model_type) {
  for (const TransformersFamily& family : transformers_families())
    if (family.model_type == model_type) return &family;
  return nullptr;
}

}  // namespace memtune::config
