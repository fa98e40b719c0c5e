#include "core/model/program/written_inputs.h"

#include <ATen/ops/clone.h>

#include <map>
#include <set>

namespace memtune::program {
namespace {

class WrittenInputs {
 public:
  explicit WrittenInputs(const Program& program) : written_(program.body.inputs.size()) {
    for (size_t i = 0; i < program.body.inputs.size(); ++i) shared_[program.body.inputs[i]] = {i};
    visit(program.body);
  }

  std::vector<bool> written() && { return std::move(written_); }

 private:
  void visit(const ProgramOrControlFlowBody& body) {
    for (const Op& op : body.ops) visit(op);
  }

  void visit(const Op& op) {
    const bool is_loop = op.kind == InterpreterInstructionKind::loop;
    const bool packs = op.kind != InterpreterInstructionKind::call &&
                       op.kind != InterpreterInstructionKind::get_attribute && op.bodies.empty();
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (i < op.writes.size() && op.writes[i])
        for (const size_t input : shared_[op.inputs[i]]) written_[input] = true;
      if (packs || (i < op.may_alias_outputs.size() && op.may_alias_outputs[i]))
        for (const Slot output : op.outputs) hand_on(op.inputs[i], output);
    }
    for (size_t i = 0; is_loop && i < op.outputs.size(); ++i) hand_on(op.inputs[i + 2], op.outputs[i]);
    for (const ProgramOrControlFlowBody& body : op.bodies) {
      for (size_t i = 1; is_loop && i < body.inputs.size(); ++i) hand_on(op.inputs[i + 1], body.inputs[i]);
      visit(body);
      for (size_t i = 0; i < op.outputs.size(); ++i) hand_on(body.outputs[i + (is_loop ? 1 : 0)], op.outputs[i]);
    }
  }

  void hand_on(Slot from, Slot to) {
    const std::set<size_t> inputs = shared_[from];
    shared_[to].insert(inputs.begin(), inputs.end());
  }

  std::map<Slot, std::set<size_t>> shared_;  // by slot: inputs that may share memory with it
  std::vector<bool> written_;
};

}  // namespace

std::vector<c10::IValue> unwritten(const std::vector<at::Tensor>& inputs, const std::vector<bool>& written) {
  std::vector<c10::IValue> values(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (written.at(i) && inputs[i].defined()) values[i] = inputs[i].clone();
  return values;
}

std::vector<bool> written_inputs(const Program& program) { return WrittenInputs(program).written(); }

}  // namespace memtune::program
