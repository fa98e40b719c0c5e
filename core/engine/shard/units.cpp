#include "core/engine/shard/units.h"

#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"
#include "core/model/program/grad_scopes.h"
#include "core/model/program/tensors.h"

namespace memtune::shard {
namespace {

using program::InterpreterInstructionKind;
using program::Op;
using program::ProgramOrControlFlowBody;
using program::Slot;

// Walks the ops in program order and assigns each parameter to the unit that reads it first, with gradients if any
// does.
class Readers {
 public:
  Readers(const program::Program& program, const plan::ProgramFacts& facts) : program_(program), facts_(facts) {
    for (const auto& [name, tensor] : program.state.parameters) left_[tensor.unsafeGetTensorImpl()] = {name, tensor};
    const std::unordered_set<const Op*> without_gradients = program::ops_without_gradients(program);
    look(program.body, without_gradients);
    block_ = -1;
    look(program.body, {});
    for (const auto& [name, tensor] : program.state.parameters)
      if (left_.contains(tensor.unsafeGetTensorImpl())) take("others", tensor);
  }
  std::vector<ParameterUnit> take_units() { return std::move(units_); }

 private:
  void look(const ProgramOrControlFlowBody& body, const std::unordered_set<const Op*>& left_out) {
    for (const Op& op : body.ops) {
      const plan::ProgramOpFacts& fact = facts_.ops[op.id];
      if (fact.block >= 0) block_ = fact.block;
      if (op.kind == InterpreterInstructionKind::get_attribute && op.object)
        held_[op.outputs[0]] = op.object->getAttr(op.attribute);
      for (const Slot slot : op.inputs)
        if (!left_out.contains(&op)) read(slot, fact);
      for (const ProgramOrControlFlowBody& inner : op.bodies) look(inner, left_out);
    }
  }

  void read(Slot slot, const plan::ProgramOpFacts& fact) {
    const auto held = held_.find(slot);
    const c10::IValue& value = held == held_.end() ? program_.constants[slot] : held->second;
    if (value.isTensor()) take(unit_of(fact), value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) take(unit_of(fact), tensor);
  }

  std::string unit_of(const plan::ProgramOpFacts& fact) const {
    if (facts_.blocks.empty()) return "model";
    if (fact.block >= 0) return facts_.blocks[fact.block].region;
    return block_ < 0 ? "before " + facts_.blocks.front().region : "behind " + facts_.blocks[block_].region;
  }

  void take(const std::string& unit, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const auto found = left_.find(tensor.unsafeGetTensorImpl());
    if (found == left_.end()) return;
    const auto [place, added] = by_name_.try_emplace(unit, units_.size());
    if (added) units_.push_back({unit, {}});
    units_[place->second].parameters.push_back(std::move(found->second));
    left_.erase(found);
  }

  const program::Program& program_;
  const plan::ProgramFacts& facts_;
  int block_ = -1;                              // the last block entered
  std::unordered_map<Slot, c10::IValue> held_;  // attributes that the program reads
  std::unordered_map<const void*, std::pair<std::string, at::Tensor>> left_;
  std::map<std::string, size_t> by_name_;
  std::vector<ParameterUnit> units_;
};

// Another tensor over a parameter's memory would no longer show it once the parameter has moved to the flat tensor.
void check_storages(const program::Program& program) {
  std::unordered_map<const void*, std::string> trained;
  const auto storage_of = [](const at::Tensor& tensor) -> const void* {
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  };
  std::unordered_set<const void*> parameters;
  for (const auto& [name, tensor] : program.state.parameters) {
    parameters.insert(tensor.unsafeGetTensorImpl());
    if (!trained.emplace(storage_of(tensor), name).second)
      throw UsageError("the parameter '" + name + "' shares its memory with another: it cannot be sharded");
  }
  for (const auto& [name, tensor] : program.state.parameters)
    if (!tensor.requires_grad()) trained.erase(storage_of(tensor));
  const auto check = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || parameters.contains(tensor.unsafeGetTensorImpl())) return;
    const auto found = trained.find(storage_of(tensor));
    if (found != trained.end())
      throw UsageError("the model holds a view of the parameter '" + found->second + "': it cannot be sharded");
  };
  for (const c10::IValue& constant : program.constants) program::for_each_tensor(constant, check);
  for (const auto& [name, buffer] : program.state.buffers) check(buffer);
}

}  // namespace

std::vector<ParameterUnit> find_units(const program::Program& program, const plan::ProgramFacts& facts) {
  check_storages(program);
  return Readers(program, facts).take_units();
}

}  // namespace memtune::shard
