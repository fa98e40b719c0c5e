// The program of a torch.export archive as plain data: what models/model.json and the configs of its tensors say.
// Nothing is resolved: whether operators exist and values are made before they are used is seen by whoever runs it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/input_description.h"
#include "core/config/pt2_graph.h"
#include "core/config/pt2_tensor.h"

namespace memtune::config {

class Pt2Archive;

// What the graph's inputs are, in their order.
struct Pt2Input {
  enum class Role { parameter, buffer, constant, person } role = Role::person;
  std::string tensor;          // name of a parameter, buffer or constant
  Pt2Argument argument;        // of a person's: a tensor, or a number that the export fixed or left open
  InputDescription described;  // of a person's tensor
  int64_t number = 0;          // of a person's number that was left open: the sample's
};

struct Pt2Answer {
  std::string name;  // of a dict's entry or an object's field
  bool is_leaf = true;
  std::vector<Pt2Answer> parts;
};

struct Pt2Program {
  Pt2Graph graph;
  std::vector<Pt2Input> inputs;
  std::vector<Pt2Argument> outputs;  // one a leaf of the answer
  Pt2Answer answer;
  std::vector<Pt2Tensor> tensors;  // each lies within its record
};

// UsageError, without the path, for archives that are damaged, of another schema, or hold no program to train.
Pt2Program read_pt2_program(const Pt2Archive& archive);

// The same of models/model.json alone, without tensors. nlohmann::json::exception for what has another form.
Pt2Program parse_pt2_program(std::string_view model);

// Whether the answer has a part of this name, at its top.
bool has_part(const Pt2Answer& answer, std::string_view name);

}  // namespace memtune::config
