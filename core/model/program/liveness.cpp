#include "core/model/program/liveness.h"

#include <set>

namespace memtune::program {
namespace {

using Slots = std::set<Slot>;

class Liveness {
 public:
  explicit Liveness(const Program& program) : is_constant_(program.is_constant) {}

  // `live`: slots needed after the body. Returns the slots needed at the body's entry.
  Slots walk(ProgramOrControlFlowBody& body, Slots live) {
    body.output_last_use.assign(body.outputs.size(), false);
    body.dead_at_entry.clear();
    for (size_t i = body.outputs.size(); i-- > 0;)
      if (!is_constant_[body.outputs[i]]) body.output_last_use[i] = live.insert(body.outputs[i]).second;
    for (auto op = body.ops.rbegin(); op != body.ops.rend(); ++op) walk(*op, live);
    for (Slot slot : body.inputs) {
      if (!live.count(slot)) body.dead_at_entry.push_back(slot);
      live.erase(slot);
    }
    return live;
  }

 private:
  void walk(Op& op, Slots& live) {
    op.dead.clear();
    for (Slot slot : op.outputs) {
      if (!live.count(slot)) op.dead.push_back(slot);
      live.erase(slot);
    }
    if (op.kind == InterpreterInstructionKind::branch) walk_branch(op, live);
    if (op.kind == InterpreterInstructionKind::loop) walk_loop(op, live);
    op.last_use.assign(op.inputs.size(), false);
    for (size_t i = op.inputs.size(); i-- > 0;) {  // of equal inputs, the last one is moved
      Slot slot = op.inputs[i];
      if (is_constant_[slot]) continue;
      op.last_use[i] = live.insert(slot).second;
    }
  }

  // One of the branches runs, once. A value dies at its last use inside, or at the entry of a branch that does not use
  // it.
  void walk_branch(Op& op, Slots& live) {
    std::vector<Slots> at_entry;
    Slots all;
    for (ProgramOrControlFlowBody& body : op.bodies) {
      at_entry.push_back(walk(body, live));
      all.insert(at_entry.back().begin(), at_entry.back().end());
    }
    for (size_t i = 0; i < op.bodies.size(); ++i)
      for (Slot slot : all)
        if (!at_entry[i].count(slot)) op.bodies[i].dead_at_entry.push_back(slot);
    live = std::move(all);
  }

  // The body may run again, so values that it reads from outside live until the loop ends.
  void walk_loop(Op& op, Slots& live) {
    ProgramOrControlFlowBody probe = op.bodies[0];
    Slots captured = Liveness(*this).walk(probe, {});
    Slots inside = live;
    inside.insert(captured.begin(), captured.end());
    walk(op.bodies[0], inside);
    for (Slot slot : captured)
      if (live.insert(slot).second) op.dead.push_back(slot);
  }

  const std::vector<bool>& is_constant_;
};

}  // namespace

void find_last_uses(Program& program) { Liveness(program).walk(program.body, {}); }

}  // namespace memtune::program
