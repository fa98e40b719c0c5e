#include "core/model/frontend/pt2/program_writer.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/model/frontend/pt2/graph_lowering.h"

namespace memtune::frontend {
namespace {

using model::ParsedPt2Program;
using model::Pt2Argument;
using model::Pt2ArgumentKind;
using model::Pt2Input;
using model::Pt2OutputTree;
using program::OutputTree;
using program::Program;

class ProgramWriter {
 public:
  ProgramWriter(const ParsedPt2Program& exported, const LoadedPt2Tensors& weights,
                const ModelSourceAndLoweringOptions& source)
      : exported_(exported), weights_(weights), given_(source.model.arguments), nodes_(program_, source) {}

  Program write() {
    check_numbers();
    for (const Pt2Input& input : exported_.inputs) write(input);
    nodes_.write(exported_.graph);
    program_.answer = answer(exported_.answer);
    return std::move(program_);
  }

 private:
  // Name of the value in the graph. A number that the export fixed is not in the graph and has only forward's name.
  static const std::string& value_of(const Pt2Input& input) { return input.argument.elements.at(0).value; }
  static const std::string& name_of(const Pt2Input& input) {
    return value_of(input).empty() ? input.argument.name : value_of(input);
  }

  void check_numbers() const {
    std::vector<std::string> names;
    for (const Pt2Input& input : exported_.inputs)
      if (input.role == Pt2Input::Role::person && !input.argument.is_list) names.push_back(name_of(input));
    for (const std::string& text : given_)
      if (const std::string name = text.substr(0, text.find('=')); std::ranges::find(names, name) == names.end())
        throw UsageError(unknown_name("input", name, names));
  }

  void write(const Pt2Input& input) {
    const auto bind = [&](Value value) { nodes_.values().bind(value_of(input), value); };
    switch (input.role) {
      case Pt2Input::Role::parameter: return bind(nodes_.emit().parameter(input.tensor, weights_.find(input.tensor)));
      case Pt2Input::Role::buffer:
      case Pt2Input::Role::constant: return bind(nodes_.emit().buffer(input.tensor, weights_.find(input.tensor)));
      case Pt2Input::Role::person: break;
    }
    const Pt2ArgumentKind kind = input.argument.kind;
    if (input.argument.is_list || kind == Pt2ArgumentKind::other || kind == Pt2ArgumentKind::graph)
      throw UsageError("its forward has an argument that is neither a tensor nor a number");
    if (kind != Pt2ArgumentKind::tensor) return write_number(input);
    bind(nodes_.emit().input(value_of(input)));
    program_.inputs.back().described = input.described;
  }

  void write_number(const Pt2Input& input) {
    const std::string start = name_of(input) + "=";
    const auto given = std::ranges::find_if(given_, [&](const auto& text) { return text.starts_with(start); });
    if (value_of(input).empty()) {
      if (given == given_.end()) return;
      throw UsageError("--input " + *given + ": the export fixed it; export the model again with another");
    }
    const int64_t number =
        given == given_.end() ? input.number : parse_integer(given->substr(start.size()), "--input " + name_of(input));
    nodes_.values().bind(value_of(input), nodes_.emit().constant(number));
  }

  OutputTree answer(const Pt2OutputTree& form) {
    OutputTree answer;
    if (form.is_leaf) answer = leaf(exported_.outputs.at(leaves_++));
    for (const Pt2OutputTree& part : form.parts) answer.elements.push_back(this->answer(part));
    answer.name = form.name;
    return answer;
  }

  OutputTree leaf(const Pt2Argument& output) {
    const bool is_tensor = output.kind == Pt2ArgumentKind::tensor;
    const c10::TypePtr type = is_tensor ? c10::TypePtr(c10::TensorType::get()) : c10::TypePtr(c10::AnyType::get());
    return {nodes_.values().plain(output).slot, type, {}};
  }

  const ParsedPt2Program& exported_;
  const LoadedPt2Tensors& weights_;
  const std::vector<std::string>& given_;  // numbers, "steps=3"
  Program program_;
  GraphLowering nodes_;
  size_t leaves_ = 0;  // of the output, written so far
};

}  // namespace

Program write_program(const ParsedPt2Program& exported, const LoadedPt2Tensors& weights,
                      const ModelSourceAndLoweringOptions& source) {
  return ProgramWriter(exported, weights, source).write();
}

}  // namespace memtune::frontend
