// A plan under construction: the place of every activation. Parts of a strategy, or rules of a plan file, change it one
// after the other.
#pragma once

#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/plan/rules/op_memory_access_graph.h"
#include "core/plan/strategy/plan.h"

namespace memtune::plan {

class ActivationPlacementDraft {
 public:
  // `facts` must outlive the draft. Every place is keep.
  explicit ActivationPlacementDraft(const ProgramFacts& facts);
  ActivationPlacementDraft(const ProgramFacts& facts, const Plan& plan);

  // `output` may be kPrivateSave.
  TensorPlacement place(int op, int output) const;
  TensorPlacement place(const OpOutputAllocationNode& memory) const;  // of the content after its last in-place write
  void set(int op, int output, TensorPlacement place);
  void set_outputs(int op, TensorPlacement place);
  // As set(), but only where the place still is keep. `own`: place of the private tensors of the op.
  void fill(int op, TensorPlacement outputs, TensorPlacement own);
  void fill(const OpOutputAllocationNode& memory, TensorPlacement place);
  // Offloads the tensors that the op saves one by one (OneOpActivationPlacements::saves), unless the op is recomputed.
  void offload_saves(int op);

  std::vector<OneOpActivationPlacements> placements() const;  // of ops with a place other than keep

 private:
  void fill(int op, int output, TensorPlacement place);

  const ProgramFacts& facts_;
  std::vector<OneOpActivationPlacements> by_op_;  // without names
};

// Flags the memories that backward needs: those that autograd saved, and inputs of recomputations under `draft`. All of
// them if the graph was not measured.
std::vector<bool> needed_in_backward(const OpMemoryAccessGraph& graph, const ActivationPlacementDraft& draft);

}  // namespace memtune::plan
