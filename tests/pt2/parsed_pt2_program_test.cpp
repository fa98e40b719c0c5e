// The JSON of an archive is read as plain data. Any content is read or refused.
#include "core/model/pt2/parsed_pt2_program.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/pt2/made_up_pt2.h"
namespace memtune::model::pt2_program_test {
namespace {

using nlohmann::json;

ParsedPt2Program parse(const test::MadeUpPt2& made) { return parse_pt2_program(made.model.dump()); }

std::string refusal(const test::MadeUpPt2& made) {
  try {
    parse(made);
  } catch (const UsageError& error) {
    return error.what();
  } catch (const json::exception& error) {
    return "json";
  }
  return "";
}

TEST_CASE("a program has its inputs and its nodes and the structure of its output") {
  const ParsedPt2Program program = parse({});
  REQUIRE(program.inputs.size() == 2);
  CHECK((program.inputs[0].role == Pt2Input::Role::parameter));
  CHECK(program.inputs[0].tensor == "up.weight");
  CHECK(program.inputs[0].argument.elements[0].value == "p_up_weight");
  const InputTensorDescription& x = program.inputs[1].described;
  CHECK(x.name == "x");
  CHECK(x.dtype == "float32");
  REQUIRE(x.dimensions.size() == 2);
  CHECK(x.dimensions[0].size == 2);
  CHECK(x.dimensions[0].symbol == "s0");
  CHECK(x.dimensions[0].least == 2);
  CHECK(x.dimensions[0].most == 64);
  CHECK(x.dimensions[1].size == 4);
  CHECK(x.dimensions[1].symbol == "");
  REQUIRE(program.graph.nodes.size() == 1);
  CHECK(program.graph.nodes[0].target == "torch.ops.aten.linear.default");
  CHECK(program.graph.nodes[0].inputs[1].name == "weight");
  REQUIRE(program.answer.parts.size() == 1);
  CHECK(program.answer.parts[0].name == "logits");
  CHECK(program.answer.parts[0].is_leaf);
  CHECK(has_part(program.answer, "logits"));
  CHECK_FALSE(has_part(program.answer, "loss"));
}

TEST_CASE("a node's source is the innermost line outside of torch") {
  test::MadeUpPt2 made;
  CHECK(parse(made).graph.nodes[0].source == "model.py:12");
  const auto source = [&](const std::string& trace) {
    made.node()["metadata"]["stack_trace"] = trace;
    return parse(made).graph.nodes[0].source;
  };
  CHECK(source("File \"/a/outer.py\", line 3, in f\n x\n  File \"/a/in:ner.py\", line 40, in g\n") == "in_ner.py:40");
  CHECK(source("File \"torch/fx/passes/runtime_assert.py\", line 24, in f") == "runtime_assert.py:24");
  CHECK(source("") == "");
  CHECK(source("File \"") == "");
  CHECK(source("File \"x.py\", line ") == "");
  CHECK(source("File \"x.py\", row 12, in f") == "");
  made.node()["metadata"].erase("stack_trace");
  CHECK(parse(made).graph.nodes[0].source == "");
}

TEST_CASE("a node's modules are listed from the outermost to the innermost") {
  const auto modules = module_stack(parse({}).graph.nodes[0].modules);
  REQUIRE(modules.size() == 2);
  CHECK(modules[0].path == "");
  CHECK(modules[0].type == "M");
  CHECK(modules[1].key == "L__self__up");
  CHECK(modules[1].path == "up");
  CHECK(modules[1].type == "Linear");
  CHECK(module_stack("").empty());
  CHECK(module_stack("a,b").empty());
  CHECK(module_stack("_empty_nn_module_stack_from_metadata_hook,_empty,_empty").empty());
}

Pt2Argument argument(const json& value) { return parse_pt2_argument(value); }

TEST_CASE("every kind of argument is read") {
  CHECK((argument({{"as_none", true}}).kind == Pt2ArgumentKind::none));
  CHECK(std::get<int64_t>(argument({{"as_int", -3}}).elements[0].constant) == -3);
  CHECK(std::get<double>(argument({{"as_float", 0.5}}).elements[0].constant) == 0.5);
  CHECK(std::isinf(std::get<double>(argument({{"as_float", "-Infinity"}}).elements[0].constant)));
  CHECK(std::isnan(std::get<double>(argument({{"as_float", "NaN"}}).elements[0].constant)));
  CHECK(std::get<bool>(argument({{"as_bool", true}}).elements[0].constant));
  CHECK(std::get<std::string>(argument({{"as_string", "x"}}).elements[0].constant) == "x");
  CHECK(std::get<std::string>(argument({{"as_device", {{"type", "cuda"}, {"index", 3}}}}).elements[0].constant) ==
        "cuda");
  CHECK(argument({{"as_ints", {1, 2}}}).elements.size() == 2);
  const Pt2Argument sizes = argument({{"as_sym_ints", {{{"as_name", "s"}}, {{"as_int", 4}}}}});
  CHECK(sizes.is_list);
  CHECK(sizes.elements[0].value == "s");
  CHECK(std::get<int64_t>(sizes.elements[1].constant) == 4);
  const Pt2Argument optional = argument({{"as_optional_tensors", {test::as_tensor("a"), {{"as_none", true}}}}});
  CHECK(optional.elements[0].value == "a");
  CHECK(optional.elements[1].value == "");
  CHECK(argument({{"as_complex", {{"real", 1}, {"imag", 2}}}}).elements.size() == 2);
  const Pt2Argument unknown = argument({{"as_custom_obj", {{"name", "o"}}}});
  CHECK((unknown.kind == Pt2ArgumentKind::other));
  CHECK(std::get<std::string>(unknown.elements[0].constant) == "as_custom_obj");
}

TEST_CASE("an argument of an unknown form is refused") {
  for (const json& wrong : {json{{"as_int", "x"}}, json{{"as_int", 1.5}}, json{{"as_ints", 3}}, json{{"as_float", "x"}},
                            json{{"as_tensor", "x"}}, json{{"as_bool", 1}}, json::object(), json::array(), json("x"),
                            json{{"as_int", 1}, {"as_float", 1}}, json{{"as_sym_int", 3}}})
    CHECK_THROWS(argument(wrong));
}

TEST_CASE("a program that is no training program of this schema is refused with the reason") {
  const auto with = [](const char* path, const json& value) {
    test::MadeUpPt2 made;
    made.model[json::json_pointer(path)] = value;
    return refusal(made);
  };
  CHECK(with("/schema_version/major", 9) == "its schema is version 9, memtune reads 8: export it with torch 2.11");
  CHECK(with("/verifiers/0", "ATEN") ==
        "its program is decomposed (ATEN): save what torch.export.export gives, before run_decompositions()");
  CHECK(with("/graph_module/signature/input_specs/1", {{"custom_obj", {{"arg", "x"}}}}) ==
        "it takes a custom_obj, which trainable programs do not have");
  CHECK(with("/graph_module", "x") == "json");
  CHECK(with("/graph_module/graph/nodes", "x") == "a list is missing where its schema has one");
}

TEST_CASE("an output of unknown structure is read part by part") {
  test::MadeUpPt2 made;
  made.model["graph_module"]["module_call_graph"] = json::array();
  const ParsedPt2Program program = parse(made);
  REQUIRE(program.answer.parts.size() == 1);
  CHECK(program.answer.parts[0].name == "");
}

TEST_CASE("the parts of a named tuple have the names of its fields") {
  test::MadeUpPt2 made;
  made.model["graph_module"]["treespec_namedtuple_fields"] = {{"a.T", {{"field_names", {"scores"}}}}};
  made.model["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] =
      R"([1, {"type": "collections.namedtuple", "context": "\"a.T\"",
          "children_spec": [{"type": null, "context": null, "children_spec": []}]}])";
  CHECK(has_part(parse(made).answer, "scores"));
}

TEST_CASE("a symbolic number keeps the sample's value") {
  test::MadeUpPt2 made;
  made.model["graph_module"]["signature"]["input_specs"].push_back(
      {{"user_input", {{"arg", {{"as_sym_int", {{"as_name", "steps"}}}}}}}});
  made.graph()["sym_int_values"]["steps"] = test::symbol("s9", 5);
  CHECK(parse(made).inputs[2].number == 5);
}

TEST_CASE("a changed value anywhere in the JSON is read or refused") {
  const json whole = test::MadeUpPt2().model.flatten();
  for (const auto& [path, old] : whole.items())
    for (const json& other : {json(nullptr), json(-1), json("x"), json(1e300), json::array(), json::object()}) {
      test::MadeUpPt2 made;
      made.model[json::json_pointer(path)] = other;
      refusal(made);  // any answer
    }
}

}  // namespace
}  // namespace memtune::model::pt2_program_test
