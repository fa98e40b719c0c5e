// A plan under construction: the place of every activation. Parts of a strategy, or rules of a plan file, change it one
// after the other.
#pragma once

#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/plan/memory_graph.h"

namespace memtune::plan {

class Draft {
 public:
  explicit Draft(const config::ProgramFacts& facts);  // every place is keep
  Draft(const config::ProgramFacts& facts, const config::Plan& plan);

  // `output` may be kPrivate.
  config::Place place(int op, int output) const;
  config::Place place(const Memory& memory) const;  // of the content after its last in-place write
  void set(int op, int output, config::Place place);
  void set_outputs(int op, config::Place place);
  // As set(), but only where the place still is keep. `own`: place of the private tensors of the op.
  void fill(int op, config::Place outputs, config::Place own);
  void fill(const Memory& memory, config::Place place);
  // Offloads the tensors that the op saves one by one (OpPlacement::saves), unless the op is recomputed.
  void send_saves(int op);

  std::vector<config::OpPlacement> placements() const;  // of ops with a place other than keep

 private:
  void fill(int op, int output, config::Place place);

  std::vector<config::OpPlacement> by_op_;
};

// Flags the memories that backward needs: those that autograd saved, and inputs of recomputations under `draft`. All of
// them if the graph was not measured.
std::vector<bool> needed_in_backward(const MemoryGraph& graph, const Draft& draft);

}  // namespace memtune::plan
