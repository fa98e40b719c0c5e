// The program of a torch.export archive as plain data, from models/model.json and the archive's tensor configs.
// Operators and values are not resolved here; the code that runs the program checks them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/model/pt2/input_tensor_description.h"
#include "core/model/pt2/pt2_graph.h"
#include "core/model/pt2/pt2_tensor_entry.h"

namespace memtune::model {

class Pt2Archive;

// One input of the graph, in the graph's order.
struct Pt2Input {
  enum class Role { parameter, buffer, constant, person } role = Role::person;
  std::string tensor;                // name of the parameter, buffer or constant
  Pt2Argument argument;              // for Role::person: a tensor, or a number that is fixed or dynamic in the export
  InputTensorDescription described;  // for Role::person, if it is a tensor
  int64_t number = 0;                // the sample's number, for Role::person with a dynamic number
};

// The structure of the model's output: nested tuples, lists, dicts and objects with tensors as leaves.
struct Pt2OutputTree {
  std::string name;  // key of a dict or field of an object
  bool is_leaf = true;
  std::vector<Pt2OutputTree> parts;
};

struct ParsedPt2Program {
  Pt2Graph graph;
  std::vector<Pt2Input> inputs;
  std::vector<Pt2Argument> outputs;  // one per leaf of the answer
  Pt2OutputTree answer;
  std::vector<Pt2TensorEntry> tensors;  // each fits into its record
};

// Throws UsageError (without the path) if the archive is damaged, has another schema version or holds no trainable
// program.
ParsedPt2Program read_pt2_program(const Pt2Archive& archive);

// Parses models/model.json alone, without tensors. Throws nlohmann::json::exception for another structure.
ParsedPt2Program parse_pt2_program(std::string_view model);

// Whether the top level of the output has a part of this name.
bool has_part(const Pt2OutputTree& answer, std::string_view name);

}  // namespace memtune::model
