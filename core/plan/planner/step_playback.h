// Simulates one pass of the recorded step under a plan: every run of its forward, every moment of its backward.
#pragma once

#include "core/plan/planner/copy_queue.h"
#include "core/plan/planner/step_beside.h"
#include "core/plan/planner/step_gathers.h"
#include "core/plan/planner/step_log.h"
#include "core/plan/planner/step_memory.h"
#include "core/plan/planner/step_tier.h"
#include "core/plan/planner/step_values.h"

namespace memtune::planner {

class StepPlayback {
 public:
  // State that earlier steps left; empty for the first step.
  struct Before {
    int64_t largest_bytes = 0;  // of the largest transfer
    int64_t put_bytes = 0;      // put into host memory by the last step
    StepGathers::Before gathers = {};
  };

  // All arguments but `tiers` and `before` must outlive it. `schedule`: learning, or learned. `cache`: as earlier steps
  // left it.
  StepPlayback(const StepTables& tables, const plan::StepCosts& costs, const StepBeside& beside,
               const plan::Plan& plan, schedule::LearnedSchedule& schedule, BlockCache& cache, const StepTiers& tiers,
               const Before& before);
  StepPlayback(const StepTables& tables, const plan::StepCosts& costs, const StepBeside& beside,
               const plan::Plan& plan, schedule::LearnedSchedule& schedule, BlockCache& cache)
      : StepPlayback(tables, costs, beside, plan, schedule, cache, {}, {}) {}

  // `log` is filled by play(); null: no log.
  void keep_log(StepLog* log) { log_ = log; }
  void play();
  void forward();
  const StepMemory& memory() const { return memory_; }
  const StepClock& clock() const { return clock_; }
  const StepValues& values() const { return values_; }
  const CopyQueue& copies() const { return copies_; }
  const StepTier& tier() const { return tier_; }
  const StepGathers& gathers() const { return gathers_; }
  Before before_next() const { return {copies_.largest_bytes(), tier_.put_bytes(), gathers_.before_next()}; }
  int64_t forward_peak() const { return forward_peak_; }
  // Bytes that the values held at each entry. A moment has two numbers: before it and after it (as peak_bytes).
  const StepBeside& held() const { return held_; }

 private:
  void backward();
  void read_units(size_t& next, size_t moment);
  void reach(const StepBeside::Entry& beside);
  void note(size_t entry);

  const plan::StepCosts& costs_;
  const StepBeside& beside_;
  const double scale_;
  schedule::LearnedSchedule& schedule_;
  StepMemory memory_;
  StepClock clock_;
  StepTier tier_;
  CopyQueue copies_;
  StepGathers gathers_;
  StepValues values_;
  StepBeside held_;
  int64_t forward_peak_ = 0;
  StepLog* log_ = nullptr;
  double noted_rerun_ms_ = 0, noted_wait_ms_ = 0;
  int64_t noted_peak_bytes_ = 0;
};

}  // namespace memtune::planner
