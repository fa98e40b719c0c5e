// A small synthetic archive of torch.export for tests: valid, or changed in one place.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/pt2/made_up_zip.h"

namespace memtune::test {

using nlohmann::json;

inline json tensor_meta(int dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                        bool trained) {
  json meta = {{"dtype", dtype},
               {"requires_grad", trained},
               {"layout", 7},
               {"storage_offset", {{"as_int", 0}}},
               {"device", {{"type", "cpu"}, {"index", nullptr}}},
               {"sizes", json::array()},
               {"strides", json::array()}};
  for (const int64_t size : sizes) meta["sizes"].push_back({{"as_int", size}});
  for (const int64_t stride : strides) meta["strides"].push_back({{"as_int", stride}});
  return meta;
}

inline json as_tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

inline json symbol(const std::string& name, int64_t hint) {
  return {
      {"as_expr", {{"expr_str", "Symbol('" + name + "', positive=True, integer=True)"}, {"hint", {{"as_int", hint}}}}}};
}

// linear(x, w), in the module "up".
struct MadeUpPt2 {
  json model, weights;
  std::string format = "pt2";

  MadeUpPt2() {
    const json node = {{"target", "torch.ops.aten.linear.default"},
                       {"inputs",
                        {{{"name", "input"}, {"arg", as_tensor("x")}, {"kind", 1}},
                         {{"name", "weight"}, {"arg", as_tensor("p_up_weight")}, {"kind", 1}}}},
                       {"outputs", {as_tensor("linear")}},
                       {"metadata",
                        {{"stack_trace",
                          "File \"/home/a/model.py\", line 12, in forward\n    y = up(x)\n  "
                          "File \"/v/site-packages/torch/nn/modules/linear.py\", line 134, in forward\n"},
                         {"nn_module_stack", "L__self__,,__main__.M;L__self__up,up,torch.nn.modules.linear.Linear"}}}};
    json x = tensor_meta(7, {0, 4}, {4, 1}, false);
    x["sizes"][0] = symbol("s0", 2);
    const json graph = {{"inputs", {as_tensor("p_up_weight"), as_tensor("x")}},
                        {"outputs", {as_tensor("linear")}},
                        {"nodes", {node}},
                        {"tensor_values", {{"x", x}}},
                        {"sym_int_values", json::object()}};
    const json signature = {{"input_specs",
                             {{{"parameter", {{"arg", {{"name", "p_up_weight"}}}, {"parameter_name", "up.weight"}}}},
                              {{"user_input", {{"arg", as_tensor("x")}}}}}},
                            {"output_specs", {{{"user_output", {{"arg", as_tensor("linear")}}}}}}};
    const json call = {{"fqn", ""},
                       {"signature", {{"out_spec", R"([1, {"type": "builtins.dict", "context": "[\"logits\"]",
                                      "children_spec": [{"type": null, "context": null, "children_spec": []}]}])"}}}};
    model = {{"schema_version", {{"major", 8}, {"minor", 17}}},
             {"verifiers", {"TRAINING"}},
             {"range_constraints", {{"s0", {{"min_val", 2}, {"max_val", 64}}}}},
             {"graph_module",
              {{"graph", graph},
               {"signature", signature},
               {"module_call_graph", {call}},
               {"treespec_namedtuple_fields", json::object()}}}};
    weights = {{"config",
                {{"up.weight",
                  {{"path_name", "weight_0"},
                   {"is_param", true},
                   {"use_pickle", false},
                   {"tensor_meta", tensor_meta(7, {3, 4}, {4, 1}, true)}}}}}};
  }

  json& graph() { return model["graph_module"]["graph"]; }
  json& node() { return graph()["nodes"][0]; }
  json& weight() { return weights["config"]["up.weight"]["tensor_meta"]; }

  std::string archive() const {
    return zip({{"data/weights/weight_0", std::string(48, '\1')},
                {"data/weights/model_weights_config.json", weights.dump()},
                {"data/constants/model_constants_config.json", R"({"config": {}})"},
                {"models/model.json", model.dump()},
                {"archive_format", format},
                {"byteorder", "little"}});
  }
};

}  // namespace memtune::test
