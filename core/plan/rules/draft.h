// A plan under construction: the place of every activation. Parts of a strategy, or rules of a plan file, change it one
// after the other.
#pragma once

#include <vector>

#include "core/plan/strategy/plan.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/rules/memory_graph.h"

namespace memtune::plan {

class Draft {
 public:
  explicit Draft(const ProgramFacts& facts);  // every place is keep
  Draft(const ProgramFacts& facts, const Plan& plan);

  // `output` may be kPrivate.
  Place place(int op, int output) const;
  Place place(const Memory& memory) const;  // of the content after its last in-place write
  void set(int op, int output, Place place);
  void set_outputs(int op, Place place);
  // As set(), but only where the place still is keep. `own`: place of the private tensors of the op.
  void fill(int op, Place outputs, Place own);
  void fill(const Memory& memory, Place place);
  // Offloads the tensors that the op saves one by one (OpPlacement::saves), unless the op is recomputed.
  void send_saves(int op);

  std::vector<OpPlacement> placements() const;  // of ops with a place other than keep

 private:
  void fill(int op, int output, Place place);

  std::vector<OpPlacement> by_op_;
};

// Flags the memories that backward needs: those that autograd saved, and inputs of recomputations under `draft`. All of
// them if the graph was not measured.
std::vector<bool> needed_in_backward(const MemoryGraph& graph, const Draft& draft);

}  // namespace memtune::plan
