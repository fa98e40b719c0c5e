#include "core/model/program/embeddings.h"

#include <unordered_map>

namespace memtune::program {
namespace {

class Tables {
 public:
  explicit Tables(const Program& program) : program_(program) { look(program.body); }
  std::unordered_set<const void*> take() { return std::move(found_); }

 private:
  void look(const ProgramOrControlFlowBody& body) {
    for (const Op& op : body.ops) {
      if (op.kind == InterpreterInstructionKind::get_attribute && op.object)
        held_[op.outputs[0]] = op.object->getAttr(op.attribute);
      if (op.kind == InterpreterInstructionKind::call && op.name == "aten::embedding") add(op.inputs[0]);
      for (const ProgramOrControlFlowBody& inner : op.bodies) look(inner);
    }
  }

  void add(Slot slot) {
    const auto held = held_.find(slot);
    const c10::IValue& value = held == held_.end() ? program_.constants[slot] : held->second;
    if (value.isTensor()) found_.insert(value.toTensor().unsafeGetTensorImpl());
  }

  const Program& program_;
  std::unordered_map<Slot, c10::IValue> held_;  // attributes that the program reads
  std::unordered_set<const void*> found_;
};

}  // namespace

std::unordered_set<const void*> embedding_tables(const Program& program) { return Tables(program).take(); }

}  // namespace memtune::program
