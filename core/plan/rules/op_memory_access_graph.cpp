#include "core/plan/rules/op_memory_access_graph.h"

#include <algorithm>

#include "core/plan/rules/op_class.h"

namespace memtune::plan {
namespace {

void add_once(std::vector<int>& list, const std::vector<int>& more) {
  for (const int one : more)
    if (std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
}

// Ops in the bodies of a branch or loop create its outputs. They come later in the list of ops.
bool branches(const ProgramOpFacts& op) { return op.name == "prim::If" || op.name == "prim::Loop"; }

}  // namespace

OpMemoryAccessGraph::OpMemoryAccessGraph(const ProgramFacts& facts)
    : facts_(facts),
      measured_(std::any_of(facts.ops.begin(), facts.ops.end(),
                            [](const ProgramOpFacts& op) { return !op.output_bytes.empty(); })),
      reads_(facts.ops.size()),
      shown_(facts.owner.size()),
      shown_by_owner_(facts.ops.size()) {
  for (int op = 0; op < static_cast<int>(facts.ops.size()); ++op) {
    read(op);
    make(op);
  }
}

const std::vector<int>& OpMemoryAccessGraph::shown_by(int value) const {
  const int owner = facts_.owner[value];
  return shown_[value].empty() && owner >= 0 ? shown_by_owner_[owner] : shown_[value];
}

std::vector<int> OpMemoryAccessGraph::made_from(const OpOutputAllocationNode& memory) const {
  std::vector<int> inputs = reads_[memory.op];
  for (const int writer : memory.writers) add_once(inputs, reads_[writer]);
  std::erase_if(inputs, [&](int input) { return &memories_[input] == &memory; });
  return inputs;
}

void OpMemoryAccessGraph::read(int op) {
  for (const int input : facts_.ops[op].inputs) add_once(reads_[op], shown_by(input));
  for (const int memory : reads_[op])
    memories_[memory].crosses |= facts_.ops[memories_[memory].op].block != facts_.ops[op].block;
}

void OpMemoryAccessGraph::make(int op) {
  const ProgramOpFacts& fact = facts_.ops[op];
  if (branches(fact)) return;
  for (size_t i = 0; i < fact.outputs.size(); ++i) show(op, i);
  if (fact.in_place) write(op);
  if (fact.private_bytes > 0 && makes_values(fact))
    add({.op = op, .output = kPrivateSave, .bytes = fact.private_bytes, .saved = true});
}

// Records the memory that an output refers to: a new one or an existing one.
void OpMemoryAccessGraph::show(int op, size_t output) {
  const ProgramOpFacts& fact = facts_.ops[op];
  const int value = fact.outputs[output];
  const int64_t bytes = measured_ && !fact.output_bytes.empty() ? fact.output_bytes[output] : 0;
  const bool made = measured_ ? bytes > 0 : makes_memory(fact);
  const bool saved = !fact.output_saved.empty() && fact.output_saved[output];
  if (made && makes_values(fact) && !fact.in_place)
    shown_[value] = {add({.op = op, .output = static_cast<int>(output), .bytes = bytes, .saved = saved})};
  else
    shown_[value] = aliased(fact, value);
  if (const int owner = facts_.owner[value]; owner >= 0) add_once(shown_by_owner_[owner], shown_[value]);
}

void OpMemoryAccessGraph::write(int op) {
  for (const int output : facts_.ops[op].outputs)
    for (const int memory : shown_by(output)) add_once(memories_[memory].writers, {op});
}

int OpMemoryAccessGraph::add(const OpOutputAllocationNode& memory) {
  memories_.push_back(memory);
  return static_cast<int>(memories_.size()) - 1;
}

// A list refers to all memories of its elements. Other outputs refer to the first input that may share memory. A
// dropout that created nothing ran in evaluation mode and returned its input. Any other op that created nothing
// returned a number, such as a size.
std::vector<int> OpMemoryAccessGraph::aliased(const ProgramOpFacts& op, int value) const {
  std::vector<int> shown;
  for (const int input : op.inputs) {
    const bool same = op.view || op.in_place ? facts_.owner[input] == facts_.owner[value] : op.random;
    if (same) add_once(shown, shown_by(input));
    if (!op.name.starts_with("prim::") && !shown.empty()) break;
  }
  return shown;
}

}  // namespace memtune::plan
