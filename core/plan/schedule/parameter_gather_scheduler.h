// Decides when the parameter units of a sharded (FSDP) model are gathered, waited for and freed. An op that reads a
// unit gathers it and prefetches the next one. Units are freed when ops read other units. Backward gathers them again,
// also for ops that it recomputes.
//
//   forward    gather 0 | gather 1 | gather 2 ...        the next while the last computes
//   compute             | block 0  | block 1 ...
//   freed                           | 0      | 1 ...
//
// The order is that of fully_shard in PyTorch 2.11 (reshard_after_forward, prefetch of one unit in each pass). The
// class knows units only by number, so that the step simulator uses it too.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/plan/schedule/next_gather_predictor.h"

namespace memtune::schedule {

enum class ReshardPolicy {
  always,          // free after the forward and after the backward of a unit
  after_backward,  // keep units from the forward until backward has used them
  never,           // keep all units; they are gathered once per step
};
ReshardPolicy parse_reshard(const std::string& text);  // throws UsageError listing the valid names

// Memory of the units: gathers and frees it for the schedule.
class ParameterGatherBackend {
 public:
  virtual ~ParameterGatherBackend() = default;
  virtual void gather(int unit) = 0;  // starts the gather and returns; the memory may already be allocated
  virtual void wait(int unit) = 0;    // until the gather is done; returns at once if none runs
  virtual void free(int unit) = 0;    // does nothing if none is allocated
};

class ParameterGatherScheduler {
 public:
  using Units = std::vector<int>;

  // Carried over from one step to the next.
  struct LearnedOrder {
    NextGatherPredictor forward, backward;
  };

  // `memory` must outlive the schedule.
  ParameterGatherScheduler(size_t units, ReshardPolicy reshard, ParameterGatherBackend& memory,
                           LearnedOrder learned = {})
      : reshard_(reshard), memory_(memory), units_(units), learned_(std::move(learned)) {}

  void begin_step();  // parameters gathered in an earlier step are stale from now on
  void begin_forward() { begin_pass(Pass::forward, learned_.forward); }
  void begin_backward() { begin_pass(Pass::backward, learned_.backward); }
  void end_backward();
  void drop();  // waits for running gathers and frees the units, also after a step that threw

  // read(): a forward op reads the units. read_by_node(): a backward node does. read_again(): a recomputed op does, and
  // the units of the running node stay gathered.
  void read(const Units& units) { need(units, {}); }
  void read_by_node(const Units& units);
  void read_again(const Units& units) { need(units, read_by_node_); }

  const LearnedOrder& learned() const { return learned_; }

 private:
  struct Unit {
    bool in_use = false;
    bool stale = true;  // freed, or gathered in an earlier step
    int returns = 0;    // times that ops left it, in this pass
  };
  enum class Pass { none, forward, backward };

  void begin_pass(Pass pass, NextGatherPredictor& order);
  void need(const Units& units, const Units& kept);
  void enter(int unit);
  void gather(int unit);
  void leave_others(const Units& units, const Units& kept);
  void free(int unit);
  void free_all();

  const ReshardPolicy reshard_;
  ParameterGatherBackend& memory_;
  std::vector<Unit> units_;
  LearnedOrder learned_;
  Pass pass_ = Pass::none;
  Units read_by_node_;  // by the running node; kept while the node recomputes ops, since it may still read them
};

}  // namespace memtune::schedule
