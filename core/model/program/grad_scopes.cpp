#include "core/model/program/grad_scopes.h"

namespace memtune::program {
namespace {

class Scopes {
 public:
  explicit Scopes(const Program& program) : program_(program) { visit(program.body, true); }
  std::unordered_set<const Op*> take() { return std::move(without_); }

 private:
  void visit(const ProgramOrControlFlowBody& body, bool gradients) {
    std::vector<bool> scopes = {gradients};
    for (const Op& op : body.ops) {
      if (op.kind == InterpreterInstructionKind::enter_grad_mode) scopes.push_back(is_on(op));
      if (op.kind == InterpreterInstructionKind::enter_autocast) scopes.push_back(scopes.back());
      if (!scopes.back()) without_.insert(&op);
      if (op.kind == InterpreterInstructionKind::leave) scopes.pop_back();
      for (const ProgramOrControlFlowBody& inner : op.bodies) visit(inner, scopes.back());
    }
  }

  // A mode that is computed counts as on.
  bool is_on(const Op& enter) const {
    const c10::IValue& on = program_.constants[enter.inputs[0]];
    return !on.isBool() || on.toBool();
  }

  const Program& program_;
  std::unordered_set<const Op*> without_;
};

}  // namespace

std::unordered_set<const Op*> ops_without_gradients(const Program& program) { return Scopes(program).take(); }

}  // namespace memtune::program
