#include "core/model/frontend/input_guess.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <set>

namespace memtune::frontend {
namespace {

using program::InterpreterInstructionKind;
using program::Op;
using program::Program;
using program::ProgramOrControlFlowBody;
using program::Slot;

struct Consumer {
  std::string op;
  at::Tensor weight;
  int64_t groups = 1;
};

// Follows one input through casts, copies and branches to the first op that has a weight.
class Finder {
 public:
  Finder(const Program& program, Slot input) : program_(program), same_{input} {
    for (size_t slot = 0; slot < program.constants.size(); ++slot)
      note_weight(static_cast<Slot>(slot), program.constants[slot]);
  }

  std::optional<Consumer> find() {
    visit(program_.body);
    return found_;
  }

 private:
  void visit(const ProgramOrControlFlowBody& body) {
    for (const Op& op : body.ops) {
      if (found_) return;
      if (op.kind == InterpreterInstructionKind::get_attribute && op.object)
        note_weight(op.outputs[0], op.object->getAttr(op.attribute));
      if (op.kind == InterpreterInstructionKind::call && !op.inputs.empty()) visit_call(op);
      for (const ProgramOrControlFlowBody& inner : op.bodies) visit(inner);
      if (op.kind == InterpreterInstructionKind::branch) visit_results(op);
    }
  }

  void note_weight(Slot slot, const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) weights_[slot] = value.toTensor();
  }

  void visit_call(const Op& op) {
    static const std::set<std::string> passes = {"aten::to", "aten::contiguous", "aten::detach", "aten::clone"};
    static const std::set<std::string> reshapes = {"aten::view", "aten::reshape", "aten::flatten"};
    static const std::map<std::string, size_t> groups = {{"aten::conv2d", 6}, {"aten::_convolution", 8}};
    bool same = same_.count(op.inputs[0]) > 0, reshaped = reshaped_.count(op.inputs[0]) > 0;
    if (passes.count(op.name) && same) same_.insert(op.outputs[0]);
    if ((reshapes.count(op.name) && same) || ((reshapes.count(op.name) || passes.count(op.name)) && reshaped))
      reshaped_.insert(op.outputs[0]);
    const plan::OperatorClassAndArgumentRoles& traits = plan::traits_of(op.name);
    bool embedding = op.op_class == plan::OpClass::embedding;
    bool layer = op.name == "aten::linear" || groups.count(op.name);
    if (!embedding && !layer) return;
    auto weight = weights_.find(op.inputs[traits.weight]);
    Slot data = op.inputs[traits.data];
    if (weight == weights_.end() || !(same_.count(data) || (embedding && reshaped_.count(data)))) return;
    found_ = {op.name, weight->second, 1};
    auto position = groups.find(op.name);
    if (position == groups.end()) return;
    const c10::IValue& count = program_.constants[op.inputs[position->second]];
    if (count.isInt()) found_->groups = count.toInt();
  }

  void visit_results(const Op& op) {
    for (size_t i = 0; i < op.outputs.size(); ++i)
      for (const ProgramOrControlFlowBody& inner : op.bodies)
        if (same_.count(inner.outputs[i])) same_.insert(op.outputs[i]);
  }

  const Program& program_;
  std::set<Slot> same_;      // slots with the content of the input
  std::set<Slot> reshaped_;  // the same elements in another shape, which only an embedding accepts
  std::map<Slot, at::Tensor> weights_;
  std::optional<Consumer> found_;
};

}  // namespace

std::optional<int64_t> embedding_rows(const Program& program, Slot input) {
  auto consumer = Finder(program, input).find();
  if (!consumer || consumer->op != "aten::embedding") return std::nullopt;
  return consumer->weight.size(0);
}

std::optional<plan::InputSpec> guess_input(const Program& program, Slot input, const std::string& name) {
  auto consumer = Finder(program, input).find();
  if (!consumer) return std::nullopt;
  const at::Tensor& weight = consumer->weight;
  if (consumer->op == "aten::embedding") return plan::InputSpec{name, "int64", {2, 128}, weight.size(0)};
  if (consumer->op == "aten::linear") return plan::InputSpec{name, "float32", {8, weight.size(1)}, std::nullopt};
  if (weight.dim() != 4) return std::nullopt;
  // Models for large images begin with large kernels, those for small images with 3 by 3.
  int64_t side = weight.size(2) > 3 ? 224 : 32;
  return plan::InputSpec{name, "float32", {8, weight.size(1) * consumer->groups, side, side}, std::nullopt};
}

}  // namespace memtune::frontend
