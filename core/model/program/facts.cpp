#include "core/model/program/facts.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/base/text.h"
#include "core/model/program/embeddings.h"

namespace memtune::program {
namespace {

class FactsBuilder {
 public:
  FactsBuilder(const Program& program, const std::vector<int>& blocks) : program_(program) {
    for (size_t i = 0; i < blocks.size(); ++i) block_of_region_[blocks[i]] = static_cast<int>(i);
    for (int region : blocks) facts_.blocks.push_back({program.regions[region].path});
  }

  plan::ProgramFacts build() {
    facts_.ops.resize(program_.ops);
    facts_.owner.assign(program_.slots, -1);
    parent_.resize(program_.ops);
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Op& op : program_.body.ops) add(op);
    for (int& owner : facts_.owner) owner = find(owner);
    bool seen = false;
    for (auto& op : facts_.ops) {
      if (op.block >= 0) seen = true;
      last_block_op_ = op.block >= 0 ? static_cast<int>(&op - facts_.ops.data()) : last_block_op_;
    }
    for (size_t i = 0; seen && i < facts_.ops.size(); ++i)
      facts_.ops[i].after_blocks = static_cast<int>(i) > last_block_op_;
    add_parameters();
    facts_.kind = program_.kind;
    facts_.notes = program_.notes;
    note_unknown();
    return std::move(facts_);
  }

 private:
  void add(const Op& op) {
    plan::ProgramOpFacts& fact = facts_.ops[op.id];
    fact.name = op.name;
    fact.region = program_.path(op);
    for (int region = op.region; region >= 0 && fact.block < 0; region = program_.regions[region].parent) {
      auto found = block_of_region_.find(region);
      if (found != block_of_region_.end()) fact.block = found->second;
    }
    for (Slot slot : op.inputs)
      if (!program_.is_constant[slot]) fact.inputs.push_back(slot);
    fact.outputs = op.outputs;
    fact.random = op.random;
    fact.op_class = op.op_class;
    fact.in_place = std::find(op.writes.begin(), op.writes.end(), true) != op.writes.end();
    fact.source = op.source;
    own(op, fact);
  }

  // Values that may share memory get one number: through views, in-place ops, containers, branches and loops.
  void own(const Op& op, plan::ProgramOpFacts& fact) {
    bool packs = op.kind != InterpreterInstructionKind::call && op.kind != InterpreterInstructionKind::get_attribute;
    bool aliases = packs || op.returns_alias;
    fact.view = aliases && !fact.in_place;
    for (Slot output : op.outputs) {
      if (op.kind == InterpreterInstructionKind::get_attribute) continue;  // a parameter or buffer has no owner
      facts_.owner[output] = op.id;
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (!program_.is_constant[op.inputs[i]] &&
            (packs || (aliases && i < op.may_alias_outputs.size() && op.may_alias_outputs[i])))
          unite(op.inputs[i], output);
    }
    for (size_t i = 0; i < op.bodies.size(); ++i) own_body(op, op.bodies[i]);
  }

  void own_body(const Op& op, const ProgramOrControlFlowBody& body) {
    bool is_loop = op.kind == InterpreterInstructionKind::loop;
    for (size_t i = 1; is_loop && i < body.inputs.size(); ++i) pass(op.inputs[i + 1], body.inputs[i]);
    for (const Op& inner : body.ops) add(inner);
    for (size_t i = 0; i < op.outputs.size(); ++i) unite(body.outputs[i + (is_loop ? 1 : 0)], op.outputs[i]);
  }

  void pass(Slot from, Slot to) { facts_.owner[to] = facts_.owner[from]; }

  void unite(Slot a, Slot b) {
    int first = find(facts_.owner[a]), second = find(facts_.owner[b]);
    if (first >= 0 && second >= 0) parent_[std::max(first, second)] = std::min(first, second);
    if (second < 0) facts_.owner[b] = facts_.owner[a];
  }

  int find(int op) const {
    while (op >= 0 && parent_[op] != op) op = parent_[op];
    return op;
  }

  void note_unknown() {
    std::set<std::string> names;
    for (const auto& op : facts_.ops)
      if (op.op_class == plan::OpClass::unknown) names.insert(op.name);
    if (names.empty()) return;
    facts_.notes.push_back("not known to memtune, so treated as slow to recompute: " +
                           join(std::vector<std::string>(names.begin(), names.end()), ", "));
  }

  void add_parameters() {
    const std::unordered_set<const void*> tables = embedding_tables(program_);
    for (const auto& [name, parameter] : program_.state.parameters) {
      facts_.parameters += parameter.numel();
      facts_.parameter_bytes += static_cast<int64_t>(parameter.nbytes());
      if (!parameter.requires_grad()) continue;
      facts_.trained_bytes += static_cast<int64_t>(parameter.nbytes());
      if (tables.contains(parameter.unsafeGetTensorImpl())) facts_.trained_embeddings += parameter.numel();
    }
  }

  const Program& program_;
  plan::ProgramFacts facts_;
  std::unordered_map<int, int> block_of_region_;
  std::vector<int> parent_;  // by op: parent in a union-find of ops that may share memory; the root is the first op
  int last_block_op_ = -1;
};

}  // namespace

plan::ProgramFacts facts(const Program& program, const std::vector<int>& blocks) {
  return FactsBuilder(program, blocks).build();
}

}  // namespace memtune::program
