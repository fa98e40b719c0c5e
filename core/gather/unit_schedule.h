// When units of a sharded model's parameters are gathered, waited for and freed, as a step reads them: a unit when an
// op reads it and the next one ahead; freed when others are read; for backward again, and for ops that are run again
// in it.
//
//   forward    gather 0 | gather 1 | gather 2 ...        the next while the last computes
//   compute             | block 0  | block 1 ...
//   freed                           | 0      | 1 ...
//
// As fully_shard of PyTorch 2.11 has it (reshard_after_forward, one unit of prefetch each way). It knows units by their
// numbers alone, so that a step on paper has the same course.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/gather/unit_order.h"

namespace memtune::gather {

enum class Reshard {
  always,          // after a unit's forward and after its backward
  after_backward,  // what the forward gathered is kept for the backward
  never,           // memory of all units is kept; they are gathered once a step
};
Reshard parse_reshard(const std::string& text);  // UsageError with the valid names

// Where the units' bytes are.
class UnitMemory {
 public:
  virtual ~UnitMemory() = default;
  virtual void gather(int unit) = 0;  // begins to; there may be memory of it
  virtual void wait(int unit) = 0;    // until it has come; of one that nobody gathers: nothing
  virtual void free(int unit) = 0;    // there may be none
};

class UnitSchedule {
 public:
  using Units = std::vector<int>;

  // What a step leaves to the next.
  struct Learned {
    UnitOrder forward, backward;
  };

  // The memory outlives it.
  UnitSchedule(size_t units, Reshard reshard, UnitMemory& memory, Learned learned = {})
      : reshard_(reshard), memory_(memory), units_(units), learned_(std::move(learned)) {}

  void begin_step();  // numbers of an earlier step are none
  void begin_forward() { begin_pass(Pass::forward, learned_.forward); }
  void begin_backward() { begin_pass(Pass::backward, learned_.backward); }
  void end_backward();
  void drop();  // what a step that threw has left goes as well

  // An op of the forward reads them; a node of backward does; an op does that is run again, beside what the node reads.
  void read(const Units& units) { need(units, {}); }
  void read_by_node(const Units& units);
  void read_again(const Units& units) { need(units, read_by_node_); }

  const Learned& learned() const { return learned_; }

 private:
  struct Unit {
    bool in_use = false;
    bool stale = true;  // its memory, if there, has an earlier step's numbers
    int returns = 0;    // in this pass
  };
  enum class Pass { none, forward, backward };

  void begin_pass(Pass pass, UnitOrder& order);
  void need(const Units& units, const Units& kept);
  void enter(int unit);
  void gather(int unit);
  void leave_others(const Units& units, const Units& kept);
  void free(int unit);
  void free_all();

  const Reshard reshard_;
  UnitMemory& memory_;
  std::vector<Unit> units_;
  Learned learned_;
  Pass pass_ = Pass::none;
  Units read_by_node_;  // that runs: while it runs ops again it has not read all of them yet
};

}  // namespace memtune::gather
