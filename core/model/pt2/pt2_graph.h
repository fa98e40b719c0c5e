// Graphs of a torch.export archive as plain data: nodes and their arguments. Numbers of dtypes, layouts and memory
// formats are those of the schema.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace memtune::model {

struct Pt2Graph;

enum class Pt2ArgumentKind {
  none,
  tensor,
  integer,
  real,
  boolean,
  text,
  complex,  // two real numbers
  dtype,
  layout,
  memory_format,
  device,
  graph,
  other,  // in no trainable program; the text is its tag
};

// The name of a program value or, if that is empty, a constant. monostate means None.
struct Pt2ValueOrConstant {
  std::string value;
  std::variant<std::monostate, bool, int64_t, double, std::string> constant;
};

struct Pt2Argument {
  std::string name;  // argument name in the operator's schema; "": positional
  Pt2ArgumentKind kind = Pt2ArgumentKind::none;
  bool is_list = false;
  std::vector<Pt2ValueOrConstant> elements;  // one element unless it is a list; none for a graph
  std::shared_ptr<const Pt2Graph> graph;
};

struct Pt2Node {
  std::string target;  // "torch.ops.aten.linear.default", "_operator.add"
  std::vector<Pt2Argument> inputs, outputs;
  std::string source;   // "model.py:42": the innermost line outside of torch; "": not known
  std::string modules;  // see module_stack()
};

struct Pt2Graph {
  std::vector<Pt2Argument> inputs, outputs;
  std::vector<Pt2Node> nodes;
};

struct Pt2ModuleStackEntry {
  std::string key;   // of one call of the module; another call has another key
  std::string path;  // "layers.3.attn"
  std::string type;  // "Block"
};

// Each throws UsageError or nlohmann::json::exception for invalid input.
Pt2Graph parse_pt2_graph(const nlohmann::json& graph);
Pt2Argument parse_pt2_argument(const nlohmann::json& argument);

// Parses "key,path,type;key,path,type", outermost module first.
std::vector<Pt2ModuleStackEntry> module_stack(std::string_view text);

// Readers of the schema's JSON: a string, a list, and a union as its tag and content.
const std::string& json_word(const nlohmann::json& value);
const nlohmann::json& json_array(const nlohmann::json& value);
std::pair<std::string, const nlohmann::json*> json_union(const nlohmann::json& value);

}  // namespace memtune::model
