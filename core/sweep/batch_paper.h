// What each batch would give under a budget, on paper: the best plan for it, out of one or two batches that were
// recorded.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/planner/batch_costs.h"
#include "core/planner/planner.h"

namespace memtune::sweep {

// The samples of a step.
struct StepSize {
  int64_t global_batch = 0;  // made up by passes; 0: each batch is a step of as many passes
  int accumulate = 1;

  // Those that make such a step, ascending; where any do, powers of two.
  std::vector<int64_t> batches() const;
  int64_t passes(int64_t batch) const { return global_batch > 0 ? global_batch / batch : accumulate; }
  double sample_ms(int64_t batch, double step_ms) const { return step_ms / static_cast<double>(batch * passes(batch)); }
};

class BatchPaper {
 public:
  struct Page {
    int64_t batch = 0;
    std::optional<planner::PlannedStep> step;  // the best; nothing: none keeps the budget
    double sample_ms = 0;                      // of it
  };

  BatchPaper(const StepSize& size, const planner::PlanLimits& limits, bool disk)
      : size_(size), limits_(limits), disk_(disk) {}

  // One or two, `facts` of the first's batch.
  void add(planner::RecordedBatch recorded, const config::ProgramFacts& facts);
  // Whether the two tell of others.
  bool tells_of_others() const;

  // Of `none` where that keeps the budget; nothing where it cannot be worked out.
  const Page* page(int64_t batch);
  planner::StepPrediction predict(int64_t batch, const config::Plan& plan) const;
  int64_t least_bytes(int64_t batch) const;
  // Of a page: its plan took `measured_bytes` (0: more than there were). False: no other plan is left.
  bool correct(int64_t batch, int64_t measured_bytes);

 private:
  struct Book {
    Page page;
    std::unique_ptr<config::ProgramFacts> facts;
    std::unique_ptr<planner::Planner> planner;  // null: cannot be worked out
  };

  std::optional<config::StepCosts> costs_at(int64_t batch) const;
  void set_step(Book& book, std::optional<planner::PlannedStep> step) const;

  const StepSize size_;
  const planner::PlanLimits limits_;
  const bool disk_;
  config::ProgramFacts facts_;
  std::vector<planner::RecordedBatch> recorded_;
  std::map<int64_t, Book> books_;
};

}  // namespace memtune::sweep
