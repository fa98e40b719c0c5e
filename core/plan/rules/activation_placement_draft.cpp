#include "core/plan/rules/activation_placement_draft.h"

#include <algorithm>

namespace memtune::plan {

ActivationPlacementDraft::ActivationPlacementDraft(const ProgramFacts& facts) : facts_(facts) {
  by_op_.reserve(facts.ops.size());
  for (const ProgramOpFacts& op : facts.ops)
    by_op_.push_back({.op = static_cast<int>(by_op_.size()),
                      .name = {},
                      .outputs = std::vector<TensorPlacement>(op.outputs.size(), TensorPlacement::keep)});
}

ActivationPlacementDraft::ActivationPlacementDraft(const ProgramFacts& facts, const Plan& plan)
    : ActivationPlacementDraft(facts) {
  for (const OneOpActivationPlacements& placement : plan.placements) {
    OneOpActivationPlacements& mine = by_op_.at(placement.op);
    const size_t count = std::min(mine.outputs.size(), placement.outputs.size());
    std::copy_n(placement.outputs.begin(), count, mine.outputs.begin());
    mine.saved = placement.saved;
    mine.saves = placement.saves;
  }
}

TensorPlacement ActivationPlacementDraft::place(int op, int output) const {
  return output == kPrivateSave ? by_op_[op].saved : by_op_[op].outputs[output];
}

TensorPlacement ActivationPlacementDraft::place(const OpOutputAllocationNode& memory) const {
  return memory.writers.empty() ? place(memory.op, memory.output) : place(memory.last_write(), 0);
}

void ActivationPlacementDraft::set(int op, int output, TensorPlacement place) {
  if (output == kPrivateSave)
    by_op_[op].saved = place;
  else
    by_op_[op].outputs[output] = place;
}

void ActivationPlacementDraft::set_outputs(int op, TensorPlacement place) {
  std::fill(by_op_[op].outputs.begin(), by_op_[op].outputs.end(), place);
}

void ActivationPlacementDraft::fill(int op, int output, TensorPlacement to) {
  if (place(op, output) == TensorPlacement::keep) set(op, output, to);
}

void ActivationPlacementDraft::fill(int op, TensorPlacement outputs, TensorPlacement own) {
  for (size_t i = 0; i < by_op_[op].outputs.size(); ++i) fill(op, static_cast<int>(i), outputs);
  fill(op, kPrivateSave, own);
}

void ActivationPlacementDraft::fill(const OpOutputAllocationNode& memory, TensorPlacement place) {
  fill(memory.op, memory.output, place);
  for (const int writer : memory.writers) fill(writer, 0, place);
}

void ActivationPlacementDraft::offload_saves(int op) {
  OneOpActivationPlacements& placement = by_op_[op];
  const bool again = placement.saved == TensorPlacement::recompute ||
                     std::ranges::count(placement.outputs, TensorPlacement::recompute) > 0;
  if (!again) placement.saves = TensorPlacement::host;
}

std::vector<OneOpActivationPlacements> ActivationPlacementDraft::placements() const {
  const auto stays = [](TensorPlacement place) { return place == TensorPlacement::keep; };
  std::vector<OneOpActivationPlacements> placements;
  for (const OneOpActivationPlacements& op : by_op_)
    if (!stays(op.saved) || !stays(op.saves) || !std::all_of(op.outputs.begin(), op.outputs.end(), stays))
      placements.emplace_back(op).name = full_name(facts_.ops[op.op]);
  return placements;
}

std::vector<bool> needed_in_backward(const OpMemoryAccessGraph& graph, const ActivationPlacementDraft& draft) {
  const std::vector<OpOutputAllocationNode>& memories = graph.memories();
  std::vector<bool> needed(memories.size(), !graph.measured());
  std::vector<int> queue;
  const auto need = [&](int memory) {
    if (!needed[memory]) queue.push_back(memory);
    needed[memory] = true;
  };
  for (size_t i = 0; i < memories.size(); ++i)
    if (memories[i].saved) need(static_cast<int>(i));
  for (size_t i = 0; i < queue.size(); ++i) {
    const OpOutputAllocationNode& memory = memories[queue[i]];
    if (draft.place(memory) != TensorPlacement::recompute) continue;
    for (const int input : graph.made_from(memory)) need(input);
  }
  return needed;
}

}  // namespace memtune::plan
