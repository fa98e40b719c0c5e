#include "core/model/transformers/transformers_layers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace memtune::model {
namespace {

const char* layer_type_of(const PerLayerConfigOverrides& layer) {
  return layer.windowed ? "sliding_attention" : "full_attention";
}

class LayerReader {
 public:
  LayerReader(ConfigFieldReader& fields, const TransformersConfig& config, const std::vector<bool>& windowed)
      : fields_(fields), object_(fields.object()), config_(config), layers_(windowed.size()) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      layers_[i].head_width = config.head_width;
      layers_[i].kv_heads = config.kv_heads;
      layers_[i].mlp = config.mlp;
      layers_[i].windowed = windowed[i];
    }
  }

  std::vector<PerLayerConfigOverrides> read() {
    read_shared_keys();
    if (fields_.family().global_heads) read_global_heads();
    check_heads();
    if (fields_.family().altup) read_mlps();
    return std::move(layers_);
  }

 private:
  // The last layers have the keys and values of the last layer of their type before them.
  void read_shared_keys() {
    int64_t shared = 0;
    object_.read("num_kv_shared_layers", shared, 0, kMaxSize);
    const auto count = static_cast<int64_t>(layers_.size());
    if (shared >= count)
      fields_.refuse("num_kv_shared_layers", "must be less than num_hidden_layers, " + std::to_string(count));
    const auto first = layers_.begin() + (count - shared);
    const bool doubled = fields_.chosen({"use_double_wide_mlp", false});
    for (auto layer = first; layer != layers_.end(); ++layer) {
      layer->reuses_keys = true;
      if (doubled) layer->mlp *= 2;
      if (std::none_of(layers_.begin(), first, [&](const auto& other) { return other.windowed == layer->windowed; }))
        fields_.refuse("num_kv_shared_layers",
                       "no layer before them computes the keys of '" + std::string(layer_type_of(*layer)) + "'");
    }
  }

  // Heads of layers without a window: by fields of their own, or by layer as newer files have them.
  void read_global_heads() {
    const bool one_projection = fields_.chosen({"attention_k_eq_v", false});
    for (PerLayerConfigOverrides& layer : layers_) layer.values_are_keys = one_projection && !layer.windowed;
    if (fields_.has("per_layer_config")) return read_by_layer();
    int64_t width = 512, kv_heads = config_.kv_heads;
    object_.read("global_head_dim", width, 1, kMaxSize);
    if (one_projection) object_.read("num_global_key_value_heads", kv_heads, 1, kMaxSize);
    for (PerLayerConfigOverrides& layer : layers_) {
      if (layer.windowed) continue;
      layer.head_width = width;
      layer.kv_heads = kv_heads;
    }
  }

  void read_by_layer() {
    const std::string field = "per_layer_config";
    const JsonObjectReader all(fields_["per_layer_config"], fields_.name() + "." + field);
    for (const auto& [key, changes] : fields_["per_layer_config"].items()) {
      JsonObjectReader layer(changes, all.path(key));
      for (const auto& [name, value] : changes.items())
        if (name != "head_dim" && name != "num_key_value_heads")
          fields_.refuse(field + "." + key + "." + name, "is not supported, head_dim and num_key_value_heads are");
      bool known = false;
      for (size_t i = 0; i < layers_.size(); ++i) {
        if (key != std::to_string(i) && key != layer_type_of(layers_[i])) continue;
        layer.read("head_dim", layers_[i].head_width, 1, kMaxSize);
        layer.read("num_key_value_heads", layers_[i].kv_heads, 1, kMaxSize);
        known = true;
      }
      if (!known) fields_.refuse(field + "." + key, "is no layer");
    }
  }

  void read_mlps() {
    const char* const field = fields_.family().fields.mlp;
    const char* const sparsity = "activation_sparsity_pattern";
    std::vector<int64_t> widths(layers_.size(), config_.mlp);
    if (fields_[field].is_array()) object_.read(field, widths, 1);
    const nlohmann::json& parts = object_.array(sparsity);
    if (widths.size() != layers_.size() || (fields_.has(sparsity) && parts.size() != layers_.size()))
      fields_.refuse(widths.size() != layers_.size() ? field : sparsity,
                     "must have num_hidden_layers numbers, " + std::to_string(layers_.size()));
    for (size_t i = 0; i < layers_.size(); ++i) {
      PerLayerConfigOverrides& layer = layers_[i];
      layer.mlp = widths[i];
      if (!fields_.has(sparsity))
        layer.sparsity = layers_.size() > 10 && i < 10 ? 0.95 : 0;
      else if (parts[i].is_number())
        layer.sparsity = parts[i].get<double>();
      if (!(layer.sparsity >= 0 && layer.sparsity < 1) || layer.mlp > kMaxSize)
        fields_.refuse(layer.mlp > kMaxSize ? field : sparsity, "is out of range in layer " + std::to_string(i));
    }
  }

  // Layers of one type share a rotary table, and may share keys.
  void check_heads() {
    for (const PerLayerConfigOverrides& layer : layers_) {
      if (config_.heads % layer.kv_heads != 0)
        fields_.refuse(
            "num_global_key_value_heads",
            std::to_string(layer.kv_heads) + " does not divide num_attention_heads, " + std::to_string(config_.heads));
      for (const PerLayerConfigOverrides& other : layers_)
        if (other.windowed == layer.windowed &&
            (other.head_width != layer.head_width || other.kv_heads != layer.kv_heads))
          fields_.refuse("per_layer_config",
                         "must give layers of '" + std::string(layer_type_of(layer)) + "' equal heads");
    }
  }

  ConfigFieldReader& fields_;
  JsonObjectReader& object_;
  const TransformersConfig& config_;
  std::vector<PerLayerConfigOverrides> layers_;
};

}  // namespace

AltupConfig read_altup(ConfigFieldReader& fields) {
  AltupConfig altup;
  altup.streams = fields.size("altup_num_inputs", 100);
  fields.object().read("altup_active_idx", altup.active, 0, altup.streams - 1);
  if (fields.has("altup_coef_clip")) {
    fields.object().read("altup_coef_clip", altup.clip.emplace());
    if (!(*altup.clip > 0)) fields.refuse("altup_coef_clip", "must be more than 0");
  }
  if (!fields.chosen({"altup_correct_scale", true}))
    fields.refuse("altup_correct_scale", "outputs without a scale are not supported");
  altup.laurel_rank = fields.size("laurel_rank");
  return altup;
}

std::vector<PerLayerConfigOverrides> read_layer_configs(ConfigFieldReader& fields, const TransformersConfig& config,
                                                        const std::vector<bool>& windowed) {
  return LayerReader(fields, config, windowed).read();
}

}  // namespace memtune::model
