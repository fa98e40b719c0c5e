#include "core/shard/units.h"

#include <map>
#include <unordered_map>

namespace memtune::shard {
namespace {

using program::Body;
using program::Op;
using program::OpKind;
using program::Slot;

// Walks the ops in program order and notes where each parameter is read first.
class Readers {
 public:
  Readers(const program::Program& program, const config::ProgramFacts& facts) : program_(program), facts_(facts) {
    for (const auto& [name, tensor] : program.state.parameters) left_[tensor.unsafeGetTensorImpl()] = {name, tensor};
    look(program.body);
    for (const auto& [name, tensor] : program.state.parameters)
      if (left_.contains(tensor.unsafeGetTensorImpl())) take("others", tensor);
  }
  std::vector<ParameterUnit> take_units() { return std::move(units_); }

 private:
  void look(const Body& body) {
    for (const Op& op : body.ops) {
      const config::OpFacts& fact = facts_.ops[op.id];
      if (fact.block >= 0) block_ = fact.block;
      if (op.kind == OpKind::get_attribute && op.object) held_[op.outputs[0]] = op.object->getAttr(op.attribute);
      for (const Slot slot : op.inputs) read(slot, fact);
      for (const Body& inner : op.bodies) look(inner);
    }
  }

  void read(Slot slot, const config::OpFacts& fact) {
    const auto held = held_.find(slot);
    const c10::IValue& value = held == held_.end() ? program_.constants[slot] : held->second;
    if (value.isTensor()) take(unit_of(fact), value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) take(unit_of(fact), tensor);
  }

  std::string unit_of(const config::OpFacts& fact) const {
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
  const config::ProgramFacts& facts_;
  int block_ = -1;                              // the last one that was entered
  std::unordered_map<Slot, c10::IValue> held_;  // what is read from objects
  std::unordered_map<const void*, std::pair<std::string, at::Tensor>> left_;
  std::map<std::string, size_t> by_name_;
  std::vector<ParameterUnit> units_;
};

}  // namespace

std::vector<ParameterUnit> find_units(const program::Program& program, const config::ProgramFacts& facts) {
  return Readers(program, facts).take_units();
}

}  // namespace memtune::shard
