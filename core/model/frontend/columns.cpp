#include "core/model/frontend/columns.h"

#include <map>

#include "core/base/vocabulary.h"
#include "core/model/frontend/program_emitter.h"

namespace memtune::frontend {
namespace {

using program::ModelOrLossInputDeclaration;
using program::Op;
using program::OutputTree;
using program::Program;
using program::ProgramOrControlFlowBody;
using program::Slot;

// Writes the ops of a program once more, in regions of their own. Constants are shared.
class Copy {
 public:
  explicit Copy(Program& program)
      : program_(program), emit_(program), regions_(static_cast<int>(program.regions.size())) {
    for (int i = 1; i < regions_; ++i) {
      const program::ModuleCallTreeNode region = program.regions[i];
      emit_.add_region(copied(region.parent), region.path, region.type);
    }
  }

  void write() {
    const ProgramOrControlFlowBody once = program_.body;
    const std::vector<ModelOrLossInputDeclaration> inputs = program_.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      slots_[once.inputs[i]] = emit_.input(inputs[i].name).slot;
      program_.inputs.back() = inputs[i];
    }
    for (const Op& op : once.ops) emit_.keep(copied(op));
  }

  OutputTree copied(OutputTree output) {
    if (output.slot >= 0) output.slot = copied_slot(output.slot);
    for (OutputTree& element : output.elements) element = copied(element);
    return output;
  }

 private:
  int copied(int region) const { return region > 0 ? region + regions_ - 1 : region; }

  Slot copied_slot(Slot slot) {
    if (program_.is_constant[slot]) return slot;
    const auto [found, first] = slots_.try_emplace(slot);
    if (first) found->second = emit_.new_value().slot;
    return found->second;
  }

  void copy(std::vector<Slot>& slots) {
    for (Slot& slot : slots) slot = copied_slot(slot);
  }

  Op copied(Op op) {
    op.region = copied(op.region);
    copy(op.inputs);
    copy(op.outputs);
    for (ProgramOrControlFlowBody& body : op.bodies) {
      copy(body.inputs);
      copy(body.outputs);
      for (Op& inner : body.ops) inner = copied(inner);
    }
    return op;
  }

  Program& program_;
  ProgramEmitter emit_;
  const int regions_;  // of the model
  std::map<Slot, Slot> slots_;
};

// Sizes that are equal within a column may differ between them.
void set_column(ModelOrLossInputDeclaration& input, const std::string& column) {
  input.name = column + "_" + input.name;
  if (!input.described) return;
  input.described->name = input.name;
  for (model::InputDimension& dimension : input.described->dimensions)
    if (!dimension.symbol.empty()) dimension.symbol = column + " " + dimension.symbol;
}

}  // namespace

std::string column_of(const std::string& input) {
  for (const std::string& column : kPairColumns)
    if (input.starts_with(column + "_")) return column;
  return "";
}

std::string without_column(const std::string& input) {
  const std::string column = column_of(input);
  return column.empty() ? input : input.substr(column.size() + 1);
}

Program in_columns(Program program) {
  const size_t inputs = program.inputs.size();
  Copy copy(program);
  copy.write();
  for (size_t i = 0; i < program.inputs.size(); ++i) set_column(program.inputs[i], kPairColumns[i < inputs ? 0 : 1]);
  program.answer = {-1, {}, {program.answer, copy.copied(program.answer)}};
  return program;
}

}  // namespace memtune::frontend
