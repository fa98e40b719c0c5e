// Tests what each node of a torch.export archive means, and which nodes are refused with the author's line.
// tests/models/check_exported.py compares whole models with Python.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/model/frontend/front_end.h"
#include "core/model/frontend/inputs.h"
#include "core/model/frontend/loss.h"
#include "core/model/frontend/pt2/host_functions.h"
#include "core/model/frontend/pt2/schema_numbers.h"
#include "core/model/program/interpreter.h"
#include "core/model/pt2/pt2_tensor_entry.h"
#include "tests/pt2/made_up_pt2.h"
#include "tests/support/run_program.h"
namespace memtune::frontend::exported_test {
namespace {

using nlohmann::json;
using program::Program;
using test::as_tensor;
using List = std::vector<json>;  // because json{x} is x

struct Archive : test::MadeUpPt2 {
  // Adds a node after the linear layer, whose result is "linear". answer() then sets the output of the program.
  Archive& add(const std::string& target, const List& inputs, const List& outputs) {
    graph()["nodes"].push_back({{"target", target},
                                {"inputs", inputs},
                                {"outputs", outputs},
                                {"metadata", {{"stack_trace", "File \"/home/a/model.py\", line 40, in forward"}}}});
    return *this;
  }
  Archive& answer(const std::string& name) {
    model["graph_module"]["signature"]["output_specs"] = json::array({{{"user_output", {{"arg", as_tensor(name)}}}}});
    return *this;
  }
};

json argument(const std::string& name, const json& value) { return {{"name", name}, {"arg", value}, {"kind", 1}}; }
json self(const std::string& value) { return argument("self", as_tensor(value)); }
json number(const std::string& name) { return {{"as_sym_int", {{"as_name", name}}}}; }

json sub_graph(const List& inputs, const List& nodes, const std::string& output) {
  const json graph = {{"inputs", inputs}, {"outputs", List{as_tensor(output)}}, {"nodes", nodes}};
  return argument("", {{"as_graph", {{"name", "sub"}, {"graph", graph}}}});
}

json node(const std::string& target, const List& inputs, const List& outputs) {
  return {{"target", target}, {"inputs", inputs}, {"outputs", outputs}, {"metadata", json::object()}};
}

ModelSourceAndLoweringOptions source_of(const Archive& archive, const test::ScratchFolder& folder) {
  const auto path = folder.path / "model.pt2";
  std::ofstream(path, std::ios::binary) << archive.archive();
  ModelSourceAndLoweringOptions source;
  source.model.path = path;
  return source;
}

Program lowered(const Archive& archive) {
  const test::ScratchFolder folder;
  return lower(source_of(archive, folder));
}

at::Tensor run(const Archive& archive, const at::Tensor& x) {
  const Program program = with_loss(lowered(archive), LossKind::none, "");
  const c10::IValue answer = program::Interpreter(program).run({x});
  return answer.isTensor() ? answer.toTensor() : answer.toGenericDict().begin()->value().toTensor();
}

std::string refusal(const ModelSourceAndLoweringOptions& source) {
  try {
    lower(source);
  } catch (const UsageError& error) {
    const std::string text = error.what(), start = "cannot use the model '" + source.model.path + "': ";
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.substr(0, start.size()) == start);
    return text.substr(start.size());
  }
  return "no error";
}

std::string refusal(const Archive& archive) {
  const test::ScratchFolder folder;
  return refusal(source_of(archive, folder));
}

// The synthetic weight: floats whose four bytes are 1.
at::Tensor weight() { return at::full({3, 4}, 0x01010101, at::kInt).view(at::kFloat); }

TEST_CASE("nodes call the dispatcher's operators with the given arguments and defaults for the others") {
  const at::Tensor x = at::randn({5, 4});
  CHECK(at::equal(run({}, x), at::linear(x, weight())));
  Archive scaled;
  scaled.add("torch.ops.aten.add.Tensor",
             {self("linear"), argument("other", {{"as_int", 3}}), argument("alpha", {{"as_int", 2}})},
             {as_tensor("y")});
  CHECK(at::equal(run(scaled.answer("y"), x), at::linear(x, weight()) + 6));
}

TEST_CASE("parameters and buffers and constants become the program's state under their names") {
  Archive archive;
  json& inputs = archive.model["graph_module"]["signature"]["input_specs"];
  json& config = archive.weights["config"];
  inputs.push_back({{"parameter", {{"arg", {{"name", "p_tied"}}}, {"parameter_name", "tied"}}}});
  inputs.push_back({{"parameter", {{"arg", {{"name", "p_frozen"}}}, {"parameter_name", "frozen"}}}});
  inputs.push_back({{"buffer", {{"arg", {{"name", "b_mean"}}}, {"buffer_name", "mean"}, {"persistent", false}}}});
  inputs.push_back({{"tensor_constant", {{"arg", {{"name", "c_0"}}}, {"tensor_constant_name", "lifted_0"}}}});
  for (const char* name : {"tied", "frozen", "mean", "lifted_0"}) config[name] = config["up.weight"];
  for (const char* name : {"frozen", "mean", "lifted_0"}) config[name]["tensor_meta"]["requires_grad"] = false;
  config["frozen"]["tensor_meta"]["strides"] = {{{"as_int", 1}}, {{"as_int", 3}}};
  const Program program = lowered(archive);
  REQUIRE(program.state.parameters.size() == 2);
  CHECK(program.state.parameters[0].first == "up.weight");
  CHECK(program.state.parameters[0].second.requires_grad());
  CHECK(program.state.parameters[1].first == "frozen");
  CHECK_FALSE(program.state.parameters[1].second.requires_grad());
  CHECK(program.state.parameters[1].second.strides() == at::IntArrayRef({1, 3}));
  CHECK(program.state.ties == std::vector<std::pair<std::string, std::string>>{{"tied", "up.weight"}});
  REQUIRE(program.state.buffers.size() == 2);
  CHECK(program.state.buffers[0].first == "mean");
  CHECK(program.state.buffers[0].second.is_alias_of(program.state.parameters[0].second));
}

TEST_CASE("an op has the innermost call of a module as its region and its author's line") {
  const std::string up = "L__self__,,__main__.M;L__self__up,up,torch.nn.modules.linear.Linear";
  Archive archive;
  const auto add = [&](const std::string& modules) {
    archive.add("torch.ops.aten.relu.default", {self("linear")}, {as_tensor("y")});
    archive.graph()["nodes"].back()["metadata"]["nn_module_stack"] = modules;
  };
  add("L__self__,,__main__.M");
  add(up);
  add("L__self__,,__main__.M;L__self__up@1,up,torch.nn.modules.linear.Linear");  // its second call
  add("_empty,_empty,_empty");
  const Program program = lowered(archive);
  const auto region = [&](size_t i) { return program.body.ops.at(i).region; };
  CHECK(program.regions[0].type == "M");
  CHECK(program.path(program.body.ops[0]) == "up");
  CHECK(program.regions[region(0)].type == "Linear");
  CHECK(program.body.ops[0].source == "model.py:12");
  CHECK(region(1) == 0);
  CHECK(region(2) == region(0));
  CHECK(region(3) != region(0));
  CHECK(program.path(program.body.ops[3]) == "up");
  CHECK(region(4) == region(3));
}

TEST_CASE("the CPU computes sizes as Python does") {
  Archive archive;
  archive.add("torch.ops.aten.sym_size.int", {self("x"), argument("dim", {{"as_int", 0}})}, {number("rows")})
      .add("_operator.floordiv", {argument("", number("rows")), argument("", {{"as_int", -2}})}, {number("half")})
      .add("torch.ops.aten.mul.Tensor", {self("linear"), argument("other", number("half"))}, {as_tensor("y")})
      .add("torch.ops.aten.view.default",
           {self("y"), argument("size", {{"as_sym_ints", {{{"as_int", 3}}, {{"as_name", "rows"}}}}})},
           {as_tensor("z")});
  const at::Tensor x = at::randn({5, 4});
  CHECK(at::equal(run(archive.answer("z"), x), (at::linear(x, weight()) * -3).view({3, 5})));
}

c10::IValue host(const char* name, std::vector<c10::IValue> inputs) {
  REQUIRE(find_host_function(name));
  (*find_host_function(name))(inputs);
  REQUIRE(inputs.size() == 1);
  return inputs[0];
}

TEST_CASE("functions of numbers round and promote types as Python does") {
  CHECK(host("_operator.floordiv", {7, -2}).toInt() == -4);
  CHECK(host("_operator.floordiv", {-7.0, 2}).toDouble() == -4.0);
  CHECK(host("_operator.mod", {-7, 3}).toInt() == 2);
  CHECK(host("_operator.mod", {7, -3}).toInt() == -2);
  CHECK(host("_operator.mod", {-7.5, 2.0}).toDouble() == 0.5);
  CHECK(host("_operator.truediv", {7, 2}).toDouble() == 3.5);
  CHECK(host("_operator.pow", {3, 4}).toInt() == 81);
  CHECK(host("_operator.pow", {2, -1}).toDouble() == 0.5);
  CHECK(host("_operator.pow", {-1, 3}).toInt() == -1);
  CHECK(host("_operator.pow", {0, 9}).toInt() == 0);
  CHECK(host("_operator.pow", {4, 0.5}).toDouble() == 2.0);
  CHECK(host("_operator.add", {1, 2.5}).toDouble() == 3.5);
  CHECK(host("_operator.neg", {3}).toInt() == -3);
  CHECK(host("_operator.lshift", {3, 2}).toInt() == 12);
  CHECK(host("_operator.rshift", {-9, 1}).toInt() == -5);
  CHECK(host("_operator.lt", {1, 2}).toBool());
  CHECK_FALSE(host("_operator.and_", {true, false}).toBool());
  CHECK(host("torch.sym_max", {3, 4}).toInt() == 4);
  CHECK(host("torch.sym_float", {3}).toDouble() == 3.0);
  CHECK(host("torch.sym_ite", {false, 1, 2}).toInt() == 2);
  CHECK(host("math.trunc", {-2.7}).toInt() == -2);
  CHECK(host("math.ceil", {2.1}).toInt() == 3);
  CHECK(host("torch._sym_sqrt", {9}).toDouble() == 3.0);
  CHECK_THROWS_AS(host("_operator.floordiv", {1, 0}), Error);
  CHECK_THROWS_AS(host("_operator.pow", {10, 40}), Error);
  CHECK_THROWS_AS(host("_operator.lshift", {1, 64}), Error);
  CHECK_FALSE(find_host_function("os.system"));
}

TEST_CASE("a list of results is unpacked and unused results are none") {
  Archive split;
  split.add("torch.ops.aten.split.Tensor",
            {self("linear"), argument("split_size", {{"as_int", 2}}), argument("dim", {{"as_int", 1}})},
            {{{"as_tensors", {{{"name", "a"}}, {{"name", "b"}}}}}});
  const at::Tensor x = at::randn({5, 4});
  CHECK(at::equal(run(split.answer("b"), x), at::linear(x, weight()).split(2, 1)[1]));
  Archive top;
  top.add("torch.ops.aten.topk.default", {self("linear"), argument("k", {{"as_int", 2}})},
          {{{"as_none", true}}, as_tensor("indices")});
  CHECK(at::equal(run(top.answer("indices"), x), std::get<1>(at::topk(at::linear(x, weight()), 2))));
}

TEST_CASE("grad mode and autocast apply only inside their subgraphs") {
  const json relu = node("torch.ops.aten.relu.default", {self("a")}, {as_tensor("b")});
  Archive grad;
  grad.add("torch.ops.higher_order.wrap_with_set_grad_enabled",
           {argument("", {{"as_bool", false}}), sub_graph({as_tensor("a")}, {relu}, "b"),
            argument("", as_tensor("linear"))},
           {{{"as_tensors", {{{"name", "c"}}}}}})
      .add("torch.ops.aten.add.Tensor", {self("linear"), argument("other", as_tensor("c"))}, {as_tensor("y")});
  const at::Tensor x = at::randn({5, 4});
  CHECK(run(grad.answer("y"), x).requires_grad());
  CHECK_FALSE(run(grad.answer("c"), x).requires_grad());
  CHECK(c10::GradMode::is_enabled());
  const json linear =
      node("torch.ops.aten.linear.default",
           {argument("input", as_tensor("linear")), argument("weight", as_tensor("w"))}, {as_tensor("b")});
  Archive cast;
  cast.add(
      "torch.ops.higher_order.wrap_with_autocast",
      {argument("", {{"as_string", "cuda"}}), argument("", {{"as_scalar_type", 13}}), argument("", {{"as_bool", true}}),
       argument("", {{"as_bool", false}}), sub_graph({as_tensor("linear"), as_tensor("w")}, {linear}, "b"),
       argument("", as_tensor("x")), argument("", as_tensor("p_up_weight"))},
      {as_tensor("y")});
  CHECK((run(cast.answer("y"), x).scalar_type() == at::kBFloat16));
  CHECK((run(cast.answer("linear"), x).scalar_type() == at::kFloat));
  CHECK(at::autocast::is_autocast_cache_enabled());
}

TEST_CASE("cond runs one of its graphs") {
  const auto body = [](const char* op) {
    return sub_graph({as_tensor("a")},
                     {node(std::string("torch.ops.aten.") + op + ".default", {self("a")}, {as_tensor("b")})}, "b");
  };
  Archive archive;
  archive.add("torch.ops.aten.sum.default", {self("x")}, {as_tensor("s")})
      .add("torch.ops.aten.gt.Scalar", {self("s"), argument("other", {{"as_int", 0}})}, {as_tensor("g")})
      .add("torch.ops.higher_order.cond",
           {argument("", as_tensor("g")), body("sin"), body("cos"),
            argument("", {{"as_tensors", {{{"name", "linear"}}}}})},
           {as_tensor("y")})
      .answer("y");
  const at::Tensor x = at::ones({2, 4});
  CHECK(at::equal(run(archive, x), at::linear(x, weight()).sin()));
  CHECK(at::equal(run(archive, -x), at::linear(-x, weight()).cos()));
}

TEST_CASE("assertions and slices of everything leave no ops in an exported program") {
  Archive archive;
  archive.add("torch.ops.aten._assert_tensor_metadata.default", {argument("a", as_tensor("linear"))}, {})
      .add("torch.ops.aten.slice.Tensor",
           {self("linear"), argument("dim", {{"as_int", 0}}), argument("start", {{"as_int", 0}}),
            argument("end", {{"as_int", std::numeric_limits<int64_t>::max()}})},
           {as_tensor("all")})
      .answer("all");
  CHECK(lowered(archive).body.ops.size() == 1);
  archive.graph()["nodes"][2]["inputs"][2]["arg"]["as_int"] = 1;
  CHECK(lowered(archive).body.ops.size() == 2);
}

TEST_CASE("a note counts dropouts and batch norms that were exported in evaluation mode") {
  Archive archive;
  const auto dropout = [&](double share, bool trains) {
    archive.add("torch.ops.aten.dropout.default",
                {argument("input", as_tensor("linear")), argument("p", {{"as_float", share}}),
                 argument("train", {{"as_bool", trains}})},
                {as_tensor("y")});
    return lowered(archive).notes;
  };
  CHECK(dropout(0.0, false).size() == 1);
  CHECK(dropout(0.1, true).size() == 1);
  const auto notes = dropout(0.1, false);
  REQUIRE(notes.size() == 2);
  CHECK(notes[1].starts_with("1 of 2 dropouts and batch norms were exported in evaluation mode"));
}

TEST_CASE("the archive describes its inputs") {
  const Program program = lowered({});
  REQUIRE(program.inputs.size() == 1);
  REQUIRE(program.inputs[0].described);
  CHECK(program.inputs[0].described->dimensions[0].symbol == "s0");
  CHECK(program.kind == "exported");
}

TEST_CASE("a synthetic batch follows the archive's description and other sizes are refused") {
  Program program = lowered({});
  plan::TrialRequest request;
  const auto made = [&] { return make_batch(request, LossKind::returned, program, c10::kCPU); };
  CHECK(made().tensors[0].sizes() == at::IntArrayRef({2, 4}));
  CHECK(made().guessed.empty());
  request.training.batch = 7;
  CHECK(made().tensors[0].sizes() == at::IntArrayRef({7, 4}));
  request.training.batch = 65;
  CHECK_THROWS_AS(made(), UsageError);
  request.training.batch = 0;
  request.model.inputs = {plan::parse_input_spec("x:float32[3,5]")};
  CHECK_THROWS_WITH_AS(made(),
                       "input 'x' is 5 in dimension 1, which the export fixed at 4: say dynamic_shapes to "
                       "torch.export.export for others",
                       UsageError);
  request.model.inputs = {plan::parse_input_spec("x:float32[3,4]")};
  CHECK(made().tensors[0].sizes() == at::IntArrayRef({3, 4}));
  request.model.inputs.clear();
  program.inputs[0].described->dtype = "";
  CHECK_THROWS_AS(made(), UsageError);
  program.inputs[0].described->dtype = "bool";
  program.inputs[0].described->sample = {1, 1, 1, 0, 1, 0, 0, 0};
  const at::Tensor sample = at::tensor({1, 1, 1, 0, 1, 0, 0, 0}).to(at::kBool).view({2, 4});
  CHECK(at::equal(made().tensors[0], sample));
  request.training.batch = 3;
  CHECK(at::equal(made().tensors[0], at::cat({sample, sample.slice(0, 0, 1)})));
}

TEST_CASE("a number input has the sample's value or the given one and a fixed one cannot change") {
  Archive archive;
  json& inputs = archive.model["graph_module"]["signature"]["input_specs"];
  inputs.push_back({{"user_input", {{"arg", number("steps")}}}});
  inputs.push_back({{"constant_input", {{"name", "flag"}, {"value", {{"as_bool", true}}}}}});
  archive.graph()["sym_int_values"]["steps"] = test::symbol("s9", 5);
  archive.add("torch.ops.aten.mul.Tensor", {self("linear"), argument("other", number("steps"))}, {as_tensor("y")})
      .answer("y");
  const at::Tensor x = at::ones({2, 4});
  CHECK(at::equal(run(archive, x), at::linear(x, weight()) * 5));
  const test::ScratchFolder folder;
  ModelSourceAndLoweringOptions source = source_of(archive, folder);
  source.model.arguments = {"flag=0"};
  CHECK(refusal(source) == "--input flag=0: the export fixed it; export the model again with another");
  source.model.arguments = {"stepz=1"};
  CHECK(refusal(source).starts_with("unknown input 'stepz'; did you mean 'steps'?"));
  source.model.arguments = {"steps=7"};
  CHECK(refusal(source) == "no error");
}

TEST_CASE("a node that cannot run is refused with the author's line") {
  const auto with = [](const std::string& target, const List& inputs) {
    Archive archive;
    return refusal(archive.add(target, inputs, {as_tensor("y")}));
  };
  CHECK(
      with("torch.ops.mylib.fast.default", {}) ==
      "cannot run torch.ops.mylib.fast.default at model.py:40: LibTorch has no such operator; those of other libraries "
      "come with --library FILE.so");
  CHECK(with("torch.ops.aten.no_such.default", {}) ==
        "cannot run torch.ops.aten.no_such.default at model.py:40: LibTorch has no such operator");
  CHECK(
      with("torch.ops.higher_order.flex_attention", {}) ==
      "cannot run torch.ops.higher_order.flex_attention at model.py:40: memtune cannot run this higher-order operator");
  CHECK(with("os.system", {}) == "cannot run os.system at model.py:40: memtune has no such function");
  CHECK(with("torch.ops.aten.from_file.default", {}).find("it reaches beyond a training step") != std::string::npos);
  CHECK(with("torch.ops.aten.relu.default", {self("never")}) ==
        "cannot run torch.ops.aten.relu.default at model.py:40: the value 'never' is used before it is computed");
  CHECK(with("torch.ops.aten.relu.default", {}) ==
        "cannot run torch.ops.aten.relu.default at model.py:40: its argument 'self' is missing");
  CHECK(with("torch.ops.aten.relu.default", {self("linear"), argument("other", {{"as_int", 1}})}) ==
        "cannot run torch.ops.aten.relu.default at model.py:40: it has arguments that the operator does not take");
  CHECK(with("torch.ops.aten.softmax.int", {self("linear"), argument("dim", {{"as_string", "x"}})}) ==
        "cannot run torch.ops.aten.softmax.int at model.py:40: its argument 'dim' is no int");
  CHECK(with("torch.ops.aten.add.Tensor", {self("linear"), argument("other", {{"as_custom_obj", {{"name", "o"}}}})}) ==
        "cannot run torch.ops.aten.add.Tensor at model.py:40: its argument 'other' is no Tensor");
  CHECK(with("torch.ops.higher_order.cond", {argument("", as_tensor("linear"))}) ==
        "cannot run torch.ops.higher_order.cond at model.py:40: its arguments are not those that torch.export writes");
}

TEST_CASE("an error in a subgraph names the line of its own node") {
  Archive archive;
  json inner = node("torch.ops.mylib.fast.default", {}, {as_tensor("b")});
  inner["metadata"]["stack_trace"] = "File \"/home/a/inner.py\", line 3, in forward";
  archive.add("torch.ops.higher_order.wrap_with_set_grad_enabled",
              {argument("", {{"as_bool", false}}), sub_graph({as_tensor("a")}, {inner}, "b"),
               argument("", as_tensor("linear"))},
              {as_tensor("y")});
  CHECK(refusal(archive).starts_with("cannot run torch.ops.mylib.fast.default at inner.py:3: LibTorch has no"));
}

TEST_CASE("an archive without trainable parameters or with other dtypes than requested is refused") {
  Archive frozen;
  frozen.weight()["requires_grad"] = false;
  CHECK(refusal(frozen) == "none of its parameters requires grad, so there is nothing to train");
  Archive numbers;
  numbers.weight()["dtype"] = 4;
  CHECK(refusal(numbers) == "'up.weight' cannot be trained: it holds no real numbers");
  Archive larger;
  larger.weight()["sizes"][0]["as_int"] = 4;
  CHECK(refusal(larger) == "it is damaged or cut off: 'up.weight' is larger than its record");
  const test::ScratchFolder folder;
  ModelSourceAndLoweringOptions source = source_of({}, folder);
  source.dtype = "bfloat16";
  CHECK(refusal(source).starts_with(
      "--dtype bfloat16: an exported program keeps the dtypes it has; 'up.weight' is float32"));
  source.dtype = "float32";
  CHECK(refusal(source) == "no error");
}

TEST_CASE("element sizes for the check of archives agree with the schema's numbers of dtypes") {
  for (int64_t number = -1; number < 40; ++number)
    if (const int64_t bytes = model::pt2_element_bytes(number); bytes > 0)
      CHECK(static_cast<int64_t>(c10::elementSize(scalar_type_of(number))) == bytes);
    else
      CHECK_THROWS_AS(scalar_type_of(number), UsageError);
}

TEST_CASE("an archive with any change in its program's JSON loads or is refused in one line") {
  const json whole = Archive().model["graph_module"].flatten();
  for (const auto& [path, old] : whole.items())
    for (const json& other : {json(7), json("linear"), json::array({json::object()})}) {
      Archive archive;
      archive.model["graph_module"][json::json_pointer(path)] = other;
      refusal(archive);  // loads, or fails in one line
    }
}

}  // namespace
}  // namespace memtune::frontend::exported_test
