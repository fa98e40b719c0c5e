#include "core/model/pt2/pt2_graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune::model {
namespace {

using nlohmann::json;

// JSON has no infinities, so they are written as strings.
double real(const json& value) {
  if (value.is_number()) return value.get<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static const std::map<std::string, double> words = {
      {"Infinity", kInfinity}, {"-Infinity", -kInfinity}, {"NaN", std::numeric_limits<double>::quiet_NaN()}};
  const auto found = words.find(json_word(value));
  if (found == words.end()) throw UsageError("'" + json_word(value).substr(0, 60) + "' is no number");
  return found->second;
}

// --- arguments ---

Pt2ValueOrConstant constant(Pt2ArgumentKind kind, const json& value) {
  switch (kind) {
    case Pt2ArgumentKind::none: return {};
    case Pt2ArgumentKind::tensor: return {json_word(value.at("name")), {}};
    case Pt2ArgumentKind::real: return {"", real(value)};
    case Pt2ArgumentKind::boolean: return {"", value.get<bool>()};
    case Pt2ArgumentKind::text: return {"", json_word(value)};
    case Pt2ArgumentKind::device: return {"", json_word(value.at("type"))};
    default: return {"", any_whole(value)};
  }
}

Pt2ValueOrConstant symbolic(Pt2ArgumentKind kind, const json& value) {
  const auto [tag, held] = json_union(value);
  return tag == "as_name" ? Pt2ValueOrConstant{json_word(*held), {}} : constant(kind, *held);
}

Pt2ValueOrConstant optional_tensor(Pt2ArgumentKind kind, const json& value) {
  const auto [tag, held] = json_union(value);
  return tag == "as_none" ? Pt2ValueOrConstant{} : constant(kind, *held);
}

struct ValueForm {
  Pt2ArgumentKind kind;
  bool is_list = false;
  Pt2ValueOrConstant (*element)(Pt2ArgumentKind, const json&) = constant;
};

const std::map<std::string, ValueForm>& forms() {
  using enum Pt2ArgumentKind;
  static const std::map<std::string, ValueForm> table = {
      {"as_none", {none}},
      {"as_tensor", {tensor}},
      {"as_tensors", {tensor, true}},
      {"as_optional_tensor", {tensor, false, optional_tensor}},
      {"as_optional_tensors", {tensor, true, optional_tensor}},
      {"as_int", {integer}},
      {"as_ints", {integer, true}},
      {"as_sym_int", {integer, false, symbolic}},
      {"as_sym_ints", {integer, true, symbolic}},
      {"as_float", {real}},
      {"as_floats", {real, true}},
      {"as_sym_float", {real, false, symbolic}},
      {"as_sym_floats", {real, true, symbolic}},
      {"as_bool", {boolean}},
      {"as_bools", {boolean, true}},
      {"as_sym_bool", {boolean, false, symbolic}},
      {"as_sym_bools", {boolean, true, symbolic}},
      {"as_string", {text}},
      {"as_strings", {text, true}},
      {"as_scalar_type", {dtype}},
      {"as_layout", {layout}},
      {"as_memory_format", {memory_format}},
      {"as_device", {device}},
  };
  return table;
}

std::vector<Pt2Argument> parse_arguments(const json& values) {
  std::vector<Pt2Argument> arguments;
  for (const json& value : json_array(values)) arguments.push_back(parse_pt2_argument(value));
  return arguments;
}

// --- nodes ---

// The author's code line from a stack trace, `File "/a/b/model.py", line 42, in forward`, outermost frame first. Frames
// inside torch are skipped if there are others.
std::string author_line(const std::string& stack) {
  std::string line;
  for (size_t at = stack.find("File \""); at != std::string::npos; at = stack.find("File \"", at + 6)) {
    const size_t begin = at + 6, end = stack.find('"', begin);
    if (end == std::string::npos) break;
    const std::string path = stack.substr(begin, end - begin);
    const size_t number = end + std::string_view("\", line ").size();
    const size_t digits = std::min(stack.find_first_not_of("0123456789", number), stack.size());
    if (digits <= number || digits - number > 9 || stack.compare(end, number - end, "\", line ") != 0) continue;
    const bool of_torch = path.starts_with("torch/") || path.find("-packages/torch/") != std::string::npos;
    std::string file = path.substr(path.find_last_of('/') + 1);
    std::replace(file.begin(), file.end(), ':', '_');
    if (!file.empty() && (!of_torch || line.empty())) line = file + ":" + stack.substr(number, digits - number);
  }
  return line;
}

Pt2Node parse_node(const json& value) {
  Pt2Node node;
  node.target = json_word(value.at("target"));
  for (const json& input : json_array(value.at("inputs"))) {
    node.inputs.push_back(parse_pt2_argument(input.at("arg")));
    node.inputs.back().name = json_word(input.at("name"));
  }
  node.outputs = parse_arguments(value.at("outputs"));
  const json& metadata = value.at("metadata");
  if (const auto found = metadata.find("stack_trace"); found != metadata.end())
    node.source = author_line(json_word(*found));
  if (const auto found = metadata.find("nn_module_stack"); found != metadata.end()) node.modules = json_word(*found);
  return node;
}

}  // namespace

const std::string& json_word(const json& value) { return value.get_ref<const std::string&>(); }

const json& json_array(const json& value) {
  if (!value.is_array()) throw UsageError("a list is missing where its schema has one");
  return value;
}

std::pair<std::string, const json*> json_union(const json& value) {
  if (!value.is_object() || value.size() != 1) throw UsageError("a union of its schema has not one field");
  return {value.begin().key(), &value.begin().value()};
}

Pt2Argument parse_pt2_argument(const json& value) {
  const auto [tag, held] = json_union(value);
  Pt2Argument argument;
  if (tag == "as_graph") {
    argument.kind = Pt2ArgumentKind::graph;
    argument.graph = std::make_shared<Pt2Graph>(parse_pt2_graph(held->at("graph")));
    return argument;
  }
  if (tag == "as_complex") {
    argument.kind = Pt2ArgumentKind::complex;
    argument.elements = {{"", real(held->at("real"))}, {"", real(held->at("imag"))}};
    return argument;
  }
  const auto found = forms().find(tag);
  if (found == forms().end()) {
    argument.kind = Pt2ArgumentKind::other;
    argument.elements = {{"", tag}};
    return argument;
  }
  const ValueForm& form = found->second;
  argument.kind = form.kind;
  argument.is_list = form.is_list;
  if (!form.is_list)
    argument.elements = {form.element(form.kind, *held)};
  else
    for (const json& element : json_array(*held)) argument.elements.push_back(form.element(form.kind, element));
  return argument;
}

Pt2Graph parse_pt2_graph(const json& value) {
  Pt2Graph graph;
  graph.inputs = parse_arguments(value.at("inputs"));
  graph.outputs = parse_arguments(value.at("outputs"));
  for (const json& node : json_array(value.at("nodes"))) graph.nodes.push_back(parse_node(node));
  return graph;
}

std::vector<Pt2ModuleStackEntry> module_stack(std::string_view text) {
  std::vector<Pt2ModuleStackEntry> modules;
  for (const std::string& entry : split(text, ';')) {
    const size_t first = entry.find(','), last = entry.rfind(',');
    if (first == std::string::npos || first == last || entry.starts_with("_empty")) continue;
    const std::string type = entry.substr(last + 1);
    modules.push_back(
        {entry.substr(0, first), entry.substr(first + 1, last - first - 1), type.substr(type.rfind('.') + 1)});
  }
  return modules;
}

}  // namespace memtune::model
