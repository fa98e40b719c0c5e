#include "core/model/transformers/transformers_forms.h"

#include <nlohmann/json.hpp>

namespace memtune::model {

void read_falcon_form(ConfigFieldReader& fields, TransformersConfig& config) {
  TransformersFamilyConventions& family = config.family;
  if (fields.chosen({"alibi", false})) fields.refuse("alibi", "linear biases of scores are not supported for falcon");
  const bool newer = fields.chosen({"new_decoder_architecture", false}), parallel = fields.chosen(family.parallel);
  int64_t norms = newer ? 2 : 1;
  fields.object().read("num_ln_in_parallel_attn", norms, 1, 2);
  if (newer && !parallel) fields.refuse("parallel_attn", "must be true with new_decoder_architecture");
  if (norms == 2 && !newer && parallel)
    fields.refuse("num_ln_in_parallel_attn", "must be 1 without new_decoder_architecture");
  if (newer && norms == 2) {
    family.shared_norm = false;
    family.modules.before_attention = "ln_attn";
    family.modules.before_mlp = "ln_mlp";
  }
  if (newer) {
    family.projections = QkvLayout::joined_by_group;
    fields.object().read("num_kv_heads", config.kv_heads, 1, kMaxSize);
    if (config.heads % config.kv_heads != 0)
      fields.refuse("num_kv_heads", std::to_string(config.kv_heads) + " does not divide num_attention_heads, " +
                                        std::to_string(config.heads));
  } else if (fields.chosen({"multi_query", true})) {
    family.projections = QkvLayout::joined_heads_with_one_key;
    config.kv_heads = 1;
  }
}

int64_t read_table_width(ConfigFieldReader& fields, int64_t head_width) {
  const int64_t width = fields.size("rotary_dim");
  if (width % 2 != 0 || width > head_width)
    fields.refuse("rotary_dim", "must be even and at most the width of a head, " + std::to_string(head_width));
  return width;
}

// "attention_types": [[["global", "local"], 12]], each list of names repeated.
std::vector<int64_t> read_local_layers(ConfigFieldReader& fields, int64_t layers) {
  const char* const field = "attention_types";
  const int64_t window = fields.size("window_size");
  std::vector<int64_t> windows;
  const nlohmann::json usual = nlohmann::json::parse(R"([[["global", "local"], 12]])");
  for (const nlohmann::json& item : fields.has(field) ? fields.object().array(field) : usual) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_array() || !item[1].is_number_unsigned())
      fields.refuse(field, "must be lists of names, each with the number of its repetitions");
    for (int64_t i = 0; i < item[1].get<int64_t>() && windows.size() <= static_cast<size_t>(layers); ++i)
      for (const nlohmann::json& name : item[0]) {
        const std::string text = name.is_string() ? name.get<std::string>() : name.dump();
        if (text != "global" && text != "local") fields.refuse(field, "'" + text + "' is not supported");
        windows.push_back(text == "local" ? window : 0);
      }
  }
  if (windows.size() != static_cast<size_t>(layers))
    fields.refuse(field, "must name num_layers layers, " + std::to_string(layers));
  return windows;
}

void read_attn_config(ConfigFieldReader& fields, TransformersConfig& config) {
  const char* const field = "attn_config";
  if (!fields.has(field)) return;
  JsonObjectReader attention(fields[field], fields.name() + "." + field);
  double dropout = 0, clipped = 0;
  attention.read("attn_pdrop", dropout);
  if (dropout != 0) fields.refuse(std::string(field) + ".attn_pdrop", "dropout is not supported");
  attention.read("softmax_scale", config.attention_scale);
  attention.read("clip_qkv", clipped, 0);
  if (clipped > 0) config.clipped = clipped;
}

}  // namespace memtune::model
