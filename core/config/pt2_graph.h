// The graphs of a torch.export archive as plain data: nodes with their arguments. The numbers of dtypes, layouts and
// memory formats are the schema's own.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace memtune::config {

struct Pt2Graph;

enum class Pt2Kind {
  none,
  tensor,
  integer,
  real,
  boolean,
  text,
  complex,  // two reals
  dtype,
  layout,
  memory_format,
  device,
  graph,
  other,  // what no program that can be trained here has: its tag is the text
};

// The name of a value of the program or, where that is empty, a constant; monostate is None.
struct Pt2Element {
  std::string value;
  std::variant<std::monostate, bool, int64_t, double, std::string> constant;
};

struct Pt2Argument {
  std::string name;  // of the operator's argument; "": by position
  Pt2Kind kind = Pt2Kind::none;
  bool is_list = false;
  std::vector<Pt2Element> elements;  // one where it is no list; none of a graph
  std::shared_ptr<const Pt2Graph> graph;
};

struct Pt2Node {
  std::string target;  // "torch.ops.aten.linear.default", "_operator.add"
  std::vector<Pt2Argument> inputs, outputs;
  std::string
      source;  // "model.py:42" as the author knows it: the innermost line outside of torch; "" where none is told
  std::string modules;  // see module_stack()
};

struct Pt2Graph {
  std::vector<Pt2Argument> inputs, outputs;
  std::vector<Pt2Node> nodes;
};

struct Pt2Module {
  std::string key;   // of one run of the module: its second has another
  std::string path;  // "layers.3.attn"
  std::string type;  // "Block"
};

// Each: UsageError or nlohmann::json::exception for what is none.
Pt2Graph parse_pt2_graph(const nlohmann::json& graph);
Pt2Argument parse_pt2_argument(const nlohmann::json& argument);

// "key,path,type;key,path,type", outermost first.
std::vector<Pt2Module> module_stack(std::string_view text);

// Of the schema's JSON: a text, a list, and the one field of a union with what it holds.
const std::string& json_word(const nlohmann::json& value);
const nlohmann::json& json_array(const nlohmann::json& value);
std::pair<std::string, const nlohmann::json*> json_union(const nlohmann::json& value);

}  // namespace memtune::config
