#include "core/model/transformers/transformers_delta_net.h"

namespace memtune::model {
namespace {

// Without layer_types, each n-th layer has attention.
std::vector<bool> layers_of_linear_attention(ConfigFieldReader& fields, int64_t layers) {
  int64_t interval = 4;
  fields.object().read("full_attention_interval", interval, 1, kMaxSize);
  std::vector<std::string> kinds;
  fields.object().read("layer_types", kinds);
  std::vector<bool> result;
  for (const std::string& kind : kinds) result.push_back(kind == "linear_attention");
  if (!fields.has("layer_types"))
    for (int64_t i = 0; i < layers; ++i) result.push_back((i + 1) % interval != 0);
  return result;
}

}  // namespace

DeltaNetConfig read_delta_net(ConfigFieldReader& fields, int64_t layers) {
  constexpr int64_t kWidest = 100000;
  DeltaNetConfig net;
  net.key_heads = fields.size("linear_num_key_heads", kWidest);
  net.value_heads = fields.size("linear_num_value_heads", kWidest);
  net.key_width = fields.size("linear_key_head_dim", kWidest);
  net.value_width = fields.size("linear_value_head_dim", kWidest);
  net.kernel = fields.size("linear_conv_kernel_dim", 1000);
  if (net.value_heads % net.key_heads != 0)
    fields.refuse("linear_num_key_heads", std::to_string(net.key_heads) + " does not divide linear_num_value_heads, " +
                                              std::to_string(net.value_heads));
  net.joined = fields.family().delta_net == DeltaNetProjectionKind::joined;
  net.layers = layers_of_linear_attention(fields, layers);
  return net;
}

}  // namespace memtune::model
