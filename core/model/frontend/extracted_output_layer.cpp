#include "core/model/frontend/extracted_output_layer.h"

#include <algorithm>

#include "core/base/error.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using ops::LogitElementwiseOperation;
using program::Op;
using program::Program;
using program::ProgramOrControlFlowBody;
using program::Slot;
using Kind = LogitElementwiseOperation::Kind;

std::string named(const Op& op) { return op.source.empty() ? op.name : op.name + " at " + op.source; }

int uses(const ProgramOrControlFlowBody& body, Slot slot) {
  int count = static_cast<int>(std::count(body.outputs.begin(), body.outputs.end(), slot));
  for (const Op& op : body.ops) {
    count += static_cast<int>(std::count(op.inputs.begin(), op.inputs.end(), slot));
    for (const ProgramOrControlFlowBody& inner : op.bodies) count += uses(inner, slot);
  }
  return count;
}

// Walks from the logits back to the layer and removes the ops on the way.
class Walk {
 public:
  Walk(Program& program, const std::string& flag, const std::string& remedy)
      : program_(program), flag_(flag), remedy_(remedy) {}

  ExtractedOutputLayer take(Slot logits) {
    Op op = take_op(logits);
    ExtractedOutputLayer layer;
    for (; op.name != "aten::linear"; op = take_op(op.inputs[0])) layer.steps.push_back(step(op));
    std::reverse(layer.steps.begin(), layer.steps.end());
    layer.hidden = {op.inputs[0]};
    layer.weight = {op.inputs[1]};
    if (op.inputs.size() > 2 && !is_none(op.inputs[2])) layer.bias = Value{op.inputs[2]};
    return layer;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw UsageError(flag_ + ": the loss cannot compute the logits itself: " + reason + "; " + remedy_);
  }

  Op take_op(Slot result) {
    auto& ops = program_.body.ops;
    const auto found = std::find_if(ops.begin(), ops.end(), [result](const Op& op) {
      return std::find(op.outputs.begin(), op.outputs.end(), result) != op.outputs.end();
    });
    if (found == ops.end()) refuse("no op at the program's end computes them");
    if (found->kind != program::InterpreterInstructionKind::call) refuse("they come out of a " + found->name);
    if (uses(program_.body, result) > 0) refuse("what " + named(*found) + " makes has other uses");
    Op op = std::move(*found);
    ops.erase(found);
    return op;
  }

  LogitElementwiseOperation step(const Op& op) const {
    const IValue factor = op.inputs.size() > 1 ? constant(op.inputs[1]) : IValue();
    if (op.name == "aten::mul" && factor.isScalar()) return {Kind::multiply, factor.toScalar().toDouble()};
    if (op.name == "aten::div" && factor.isScalar() && op.inputs.size() == 2)
      return {Kind::divide, factor.toScalar().toDouble()};
    if (op.name == "aten::tanh") return {Kind::tanh};
    if (op.name == "aten::float" || (op.name == "aten::to" && factor.isInt() && factor.toScalarType() == at::kFloat))
      return {Kind::to_float};
    refuse(named(op) + " lies between");
  }

  IValue constant(Slot slot) const {
    const auto i = static_cast<size_t>(slot);
    return i < program_.is_constant.size() && program_.is_constant[i] ? program_.constants[i] : IValue();
  }
  bool is_none(Slot slot) const { return program_.is_constant[static_cast<size_t>(slot)] && constant(slot).isNone(); }

  Program& program_;
  const std::string &flag_, &remedy_;
};

}  // namespace

ExtractedOutputLayer extract_output_layer(Program& program, Value logits, const std::string& flag,
                                          const std::string& remedy) {
  return Walk(program, flag, remedy).take(logits.slot);
}

}  // namespace memtune::frontend
