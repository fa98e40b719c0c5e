#include "core/model/frontend/pt2/training_mode.h"

#include <map>

namespace memtune::frontend {
namespace {

using program::Op;
using program::Program;
using program::ProgramOrControlFlowBody;

struct Modes {
  int all = 0, evaluating = 0;
};

// Index of the argument with the training mode, by op.
const std::map<std::string, size_t>& mode_arguments() {
  static const std::map<std::string, size_t> arguments = {
      {"aten::dropout", 2}, {"aten::dropout_", 2},   {"aten::feature_dropout", 2}, {"aten::alpha_dropout", 2},
      {"aten::rrelu", 3},   {"aten::batch_norm", 5}, {"aten::native_dropout", 2}};
  return arguments;
}

bool does_nothing(const Program& program, const Op& op) {  // a dropout of 0
  if (!op.name.ends_with("dropout") && !op.name.ends_with("dropout_")) return false;
  const c10::IValue& share = program.constants[op.inputs[1]];
  return share.isScalar() && share.toScalar().toDouble() == 0;
}

void count(const Program& program, const ProgramOrControlFlowBody& body, Modes& modes) {
  for (const Op& op : body.ops) {
    for (const ProgramOrControlFlowBody& inner : op.bodies) count(program, inner, modes);
    const auto found = mode_arguments().find(op.name);
    if (found == mode_arguments().end() || does_nothing(program, op)) continue;
    const c10::IValue& trains = program.constants[op.inputs.at(found->second)];
    ++modes.all;
    modes.evaluating += trains.isBool() && !trains.toBool();
  }
}

}  // namespace

std::string note_on_evaluation(const Program& program) {
  Modes modes;
  count(program, program.body, modes);
  if (modes.evaluating == 0) return "";
  const std::string what =
      modes.evaluating == modes.all
          ? "the model was"
          : std::to_string(modes.evaluating) + " of " + std::to_string(modes.all) + " dropouts and batch norms were";
  return what +
         " exported in evaluation mode: no dropout, batch norm with its running statistics; export it after "
         "model.train() to train all of it";
}

}  // namespace memtune::frontend
