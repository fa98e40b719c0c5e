// Graph of a program's memories, the allocations that its ops create, as opposed to the values that refer to them.
// Views and in-place results refer to an existing memory. A private tensor (saved by an op for its own backward) is a
// memory of its own.
//
// If a forward was measured, sizes and saved flags come from it. A view that copied then counts as a new memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/facts/program_facts.h"
#include "core/record/trace/private_save.h"

namespace memtune::plan {

struct OpOutputAllocationNode {
  int op = 0;                     // that creates it
  int output = 0;                 // index of the output; kPrivateSave: a private tensor
  int64_t bytes = 0;              // 0 if not measured
  bool saved = false;             // by autograd, for some backward
  bool crosses = false;           // an op of another block, or outside of blocks, reads it
  std::vector<int> writers = {};  // in-place ops that change it, in order; autograd saves its last content

  int last_write() const { return writers.empty() ? -1 : writers.back(); }
};

class OpMemoryAccessGraph {
 public:
  explicit OpMemoryAccessGraph(const ProgramFacts& facts);

  bool measured() const { return measured_; }
  const std::vector<OpOutputAllocationNode>& memories() const { return memories_; }
  // Memories that the inputs of an op refer to, as indices into memories(), each once. Program inputs and parameters
  // have no memory.
  const std::vector<int>& read_by(int op) const { return reads_[op]; }
  // The same for all ops that create and change `memory`, without that memory itself.
  std::vector<int> made_from(const OpOutputAllocationNode& memory) const;

 private:
  const std::vector<int>& shown_by(int value) const;
  void read(int op);
  void make(int op);
  void show(int op, size_t output);
  void write(int op);
  int add(const OpOutputAllocationNode& memory);
  std::vector<int> aliased(const ProgramOpFacts& op, int value) const;

  const ProgramFacts& facts_;
  bool measured_;
  std::vector<OpOutputAllocationNode> memories_;
  std::vector<std::vector<int>> reads_;           // by op
  std::vector<std::vector<int>> shown_;           // by value
  std::vector<std::vector<int>> shown_by_owner_;  // by ProgramFacts::owner, for values out of branches and loops
};

}  // namespace memtune::plan
