#include "core/model/transformers/transformers_experts.h"

#include <algorithm>

namespace memtune::model {
namespace {

// Every `step`-th layer has experts instead of an MLP, except those in mlp_only_layers.
std::vector<bool> layers_with_experts(TransformersConfigReader& fields, int64_t layers) {
  int64_t step = 1;
  std::vector<int64_t> without;
  fields.object().read("decoder_sparse_step", step, 1);
  fields.object().read("mlp_only_layers", without, 0);
  std::vector<bool> result(layers);
  for (int64_t i = 0; i < layers; ++i)
    result[i] = (i + 1) % step == 0 && std::ranges::find(without, i) == without.end();
  return result;
}

void refuse_what_is_not_built(TransformersConfigReader& fields) {
  double noise = 0;
  fields.object().read("router_jitter_noise", noise);
  if (noise != 0) fields.refuse("router_jitter_noise", "noise on the input of the router is not supported");
  std::string way = "grouped_mm";
  for (const char* field : {"experts_implementation", "_experts_implementation"}) {
    fields.object().read(field, way);
    if (way != "grouped_mm") fields.refuse(field, "'" + way + "' is not supported, grouped_mm is");
  }
}

}  // namespace

MoeConfig read_experts(TransformersConfigReader& fields, int64_t layers) {
  const ExpertModuleNames& names = fields.family().experts;
  refuse_what_is_not_built(fields);
  MoeConfig experts;
  experts.count = fields.size(fields.has("num_local_experts") ? "num_local_experts" : "num_experts", 100000);
  experts.chosen = fields.size("num_experts_per_tok");
  if (experts.chosen > experts.count)
    fields.refuse("num_experts_per_tok", std::to_string(experts.chosen) + " of " + std::to_string(experts.count) +
                                             " experts cannot be chosen");
  experts.width = fields.size(names.width);
  if (names.shared) experts.shared_width = fields.size("shared_expert_intermediate_size");
  experts.normed = names.always_normed || fields.chosen({"norm_topk_prob", false});
  experts.layers = layers_with_experts(fields, layers);
  return experts;
}

}  // namespace memtune::model
