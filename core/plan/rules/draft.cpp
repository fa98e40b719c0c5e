#include "core/plan/rules/draft.h"

#include <algorithm>

namespace memtune::plan {


Draft::Draft(const ProgramFacts& facts) {
  for (const OpFacts& op : facts.ops)
    by_op_.push_back({static_cast<int>(by_op_.size()), full_name(op),
                      std::vector<Place>(op.outputs.size(), Place::keep), Place::keep, Place::keep});
}

Draft::Draft(const ProgramFacts& facts, const Plan& plan) : Draft(facts) {
  for (const OpPlacement& placement : plan.placements) {
    OpPlacement& mine = by_op_.at(placement.op);
    const size_t count = std::min(mine.outputs.size(), placement.outputs.size());
    std::copy_n(placement.outputs.begin(), count, mine.outputs.begin());
    mine.saved = placement.saved;
    mine.saves = placement.saves;
  }
}

Place Draft::place(int op, int output) const {
  return output == kPrivate ? by_op_[op].saved : by_op_[op].outputs[output];
}

Place Draft::place(const Memory& memory) const {
  return memory.writers.empty() ? place(memory.op, memory.output) : place(memory.last_write(), 0);
}

void Draft::set(int op, int output, Place place) {
  if (output == kPrivate)
    by_op_[op].saved = place;
  else
    by_op_[op].outputs[output] = place;
}

void Draft::set_outputs(int op, Place place) { std::fill(by_op_[op].outputs.begin(), by_op_[op].outputs.end(), place); }

void Draft::fill(int op, int output, Place to) {
  if (place(op, output) == Place::keep) set(op, output, to);
}

void Draft::fill(int op, Place outputs, Place own) {
  for (size_t i = 0; i < by_op_[op].outputs.size(); ++i) fill(op, static_cast<int>(i), outputs);
  fill(op, kPrivate, own);
}

void Draft::fill(const Memory& memory, Place place) {
  fill(memory.op, memory.output, place);
  for (const int writer : memory.writers) fill(writer, 0, place);
}

void Draft::send_saves(int op) {
  OpPlacement& placement = by_op_[op];
  const bool again = placement.saved == Place::recompute || std::ranges::count(placement.outputs, Place::recompute) > 0;
  if (!again) placement.saves = Place::host;
}

std::vector<OpPlacement> Draft::placements() const {
  const auto stays = [](Place place) { return place == Place::keep; };
  std::vector<OpPlacement> placements;
  for (const OpPlacement& op : by_op_)
    if (!stays(op.saved) || !stays(op.saves) || !std::all_of(op.outputs.begin(), op.outputs.end(), stays))
      placements.push_back(op);
  return placements;
}

std::vector<bool> needed_in_backward(const MemoryGraph& graph, const Draft& draft) {
  const std::vector<Memory>& memories = graph.memories();
  std::vector<bool> needed(memories.size(), !graph.measured());
  std::vector<int> queue;
  const auto need = [&](int memory) {
    if (!needed[memory]) queue.push_back(memory);
    needed[memory] = true;
  };
  for (size_t i = 0; i < memories.size(); ++i)
    if (memories[i].saved) need(static_cast<int>(i));
  for (size_t i = 0; i < queue.size(); ++i) {
    const Memory& memory = memories[queue[i]];
    if (draft.place(memory) != Place::recompute) continue;
    for (const int input : graph.made_from(memory)) need(input);
  }
  return needed;
}

}  // namespace memtune::plan
