// A plan in the making: the place of every value, changed by one part of a strategy or one rule after the other.
#pragma once

#include <vector>

#include "core/config/plan.h"
#include "core/config/program_facts.h"
#include "core/plan/memory_graph.h"

namespace memtune::plan {

class Draft {
 public:
  explicit Draft(const config::ProgramFacts& facts);  // everything stays
  Draft(const config::ProgramFacts& facts, const config::Plan& plan);

  // `output` may be kPrivate.
  config::Place place(int op, int output) const;
  config::Place place(const Memory& memory) const;  // of its last content
  void set(int op, int output, config::Place place);
  void set_outputs(int op, config::Place place);
  // The same, where the value has stayed so far.
  void fill(int op, config::Place outputs, config::Place own);
  void fill(const Memory& memory, config::Place place);
  // Tensors that the op saves leave one by one, unless it is made again.
  void send_saves(int op);

  std::vector<config::OpPlacement> placements() const;  // of ops that keep not everything

 private:
  void fill(int op, int output, config::Place place);

  std::vector<config::OpPlacement> by_op_;
};

// Which memories have to be there in backward: what autograd saved, and what recomputing it under `draft` starts from.
// All, where nothing was measured.
std::vector<bool> needed_in_backward(const MemoryGraph& graph, const Draft& draft);

}  // namespace memtune::plan
