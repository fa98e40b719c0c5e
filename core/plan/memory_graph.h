// The memories of a program: what its ops bring into being, as opposed to the values that show it. Views and in-place
// results are names of a memory that is there already; what an op saves for its own backward is a memory of its own.
// Where one forward was measured a view that copied has a memory too, and sizes and uses are those of that forward.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/private_output.h"
#include "core/config/program_facts.h"

namespace memtune::plan {

struct Memory {
  int op = 0;                     // that made it
  int output = 0;                 // of the op; kPrivate: saved for the op's own backward
  int64_t bytes = 0;              // 0 where nothing was measured
  bool saved = false;             // for somebody's backward
  bool crosses = false;           // an op of another block, or of none, reads it
  std::vector<int> writers = {};  // in-place ops that change it, in order; what is saved is the last content

  int last_write() const { return writers.empty() ? -1 : writers.back(); }
};

class MemoryGraph {
 public:
  explicit MemoryGraph(const config::ProgramFacts& facts);

  bool measured() const { return measured_; }
  const std::vector<Memory>& memories() const { return memories_; }
  // What an op's inputs show, as indices of memories(), each once. Program inputs and parameters are none.
  const std::vector<int>& read_by(int op) const { return reads_[op]; }
  // The same for the ops that made and changed one of memories(), but for that memory itself.
  std::vector<int> made_from(const Memory& memory) const;

 private:
  const std::vector<int>& shown_by(int value) const;
  void read(int op);
  void make(int op);
  void show(int op, size_t output);
  void write(int op);
  int add(const Memory& memory);
  std::vector<int> aliased(const config::OpFacts& op, int value) const;

  const config::ProgramFacts& facts_;
  bool measured_;
  std::vector<Memory> memories_;
  std::vector<std::vector<int>> reads_;           // by op
  std::vector<std::vector<int>> shown_;           // by value
  std::vector<std::vector<int>> shown_by_owner_;  // by ProgramFacts::owner: for values out of branches and loops
};

}  // namespace memtune::plan
