#include "core/model/transformers/transformers_experts.h"

#include <algorithm>

namespace memtune::model {
namespace {

// Every `step`-th layer of a range has experts instead of an MLP, except those in mlp_only_layers.
std::vector<bool> layers_with_experts(ConfigFieldReader& fields, int64_t layers) {
  int64_t step = 1, first = 0, last = -1;
  std::vector<int64_t> without;
  fields.object().read("decoder_sparse_step", step, 1);
  fields.object().read("mlp_only_layers", without, 0);
  fields.object().read("first_k_dense_replace", first, 0);
  fields.object().read("moe_layer_interval", step, 1);
  fields.object().read("moe_layer_start_index", first, 0);
  fields.object().read("moe_layer_end_index", last, -1);
  if (last < 0) last = layers - 1;
  fields.object().read("interleave_moe_layer_step", step, 1);
  std::vector<int64_t> with;
  fields.object().read("moe_layers", with, 0);
  std::vector<bool> result(layers);
  for (int64_t i = 0; i < layers; ++i)
    result[i] = i >= first && i <= last && (i + 1) % step == 0 && std::ranges::find(without, i) == without.end();
  if (fields.has("moe_layers"))
    for (int64_t i = 0; i < layers; ++i) result[i] = std::ranges::find(with, i) != with.end();
  return result;
}

void refuse_what_is_not_built(ConfigFieldReader& fields) {
  const bool mixes = fields.family().experts.routing == RouterKind::sparse_mixer;  // its router_jitter_noise is none
  for (const char* field : {"input_jitter_noise", "router_jitter_noise"}) {
    double noise = 0;
    fields.object().read(field, noise);
    if (noise != 0 && !(mixes && field == std::string_view("router_jitter_noise")))
      fields.refuse(field, "noise on the input of the router is not supported");
  }
  std::string way = "grouped_mm";
  for (const char* field : {"experts_implementation", "_experts_implementation"}) {
    fields.object().read(field, way);
    if (way != "grouped_mm") fields.refuse(field, "'" + way + "' is not supported, grouped_mm is");
  }
}

void read_groups(ConfigFieldReader& fields, MoeConfig& experts) {
  fields.object().read("routed_scaling_factor", experts.scale);
  std::string method = "group_limited_greedy";
  if (fields.family().experts.routing == RouterKind::softmax_in_groups) fields.object().read("topk_method", method);
  if (method == "greedy") return;
  if (method != "group_limited_greedy")
    fields.refuse("topk_method", "'" + method + "' is not supported, greedy and group_limited_greedy are");
  fields.object().read("n_group", experts.groups, 1, experts.count);
  fields.object().read("topk_group", experts.chosen_groups, 1, experts.groups);
  if (experts.count % experts.groups != 0 || experts.count / experts.groups < 2)
    fields.refuse("n_group", std::to_string(experts.groups) + " groups of at least 2 of " +
                                 std::to_string(experts.count) + " experts cannot be made");
  if (experts.chosen > experts.chosen_groups * (experts.count / experts.groups))
    fields.refuse("topk_group", "its groups have fewer experts than " + std::to_string(experts.chosen));
}

}  // namespace

MoeConfig read_experts(ConfigFieldReader& fields, int64_t layers) {
  const FamilyMoeConventions& names = fields.family().experts;
  refuse_what_is_not_built(fields);
  MoeConfig experts;
  const char* const local = fields.has("num_local_experts") ? "num_local_experts" : "num_experts";
  experts.count = fields.size(*names.count ? names.count : local, 100000);
  experts.chosen = fields.size(names.chosen);
  if (experts.chosen > experts.count)
    fields.refuse(names.chosen, std::to_string(experts.chosen) + " of " + std::to_string(experts.count) +
                                    " experts cannot be chosen");
  if (names.routing == RouterKind::sparse_mixer) {
    if (experts.chosen != 2) fields.refuse(names.chosen, "must be 2");
    experts.far = 0.01;
    fields.object().read("router_jitter_noise", experts.far);
    experts.far *= 2;
  }
  experts.width = fields.size(names.width);
  if (*names.shared_width) {
    fields.object().require({names.shared_width});
    fields.object().read(names.shared_width, experts.shared_width, 0, kMaxSize);
  }
  if (*names.shared_count) {
    int64_t count = 0;
    fields.object().require({names.shared_count});
    fields.object().read(names.shared_count, count, 0, 1000);
    experts.shared_width *= count;
  }
  fields.object().read("moe_norm_min", experts.least_sum);
  if (names.routing == RouterKind::sigmoid_in_groups || names.routing == RouterKind::softmax_in_groups)
    read_groups(fields, experts);
  experts.normed = names.always_normed || fields.chosen({"norm_topk_prob", false});
  experts.layers = layers_with_experts(fields, layers);
  return experts;
}

}  // namespace memtune::model
