// Predicts the step of any batch under a budget, with the best plan for it, from one or two recorded batches.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/plan/planner/batch_extrapolated_cost_range.h"
#include "core/plan/planner/planner.h"

namespace memtune::sweep {

// How many samples an optimizer step takes.
struct GlobalBatchOrAccumulationSteps {
  // Samples per step, reached by gradient accumulation. 0: a step is `accumulate` micro-batches of any size.
  int64_t global_batch = 0;
  int accumulate = 1;

  // The batches that can make up such a step, ascending: divisors of global_batch, or powers of two if it is 0.
  std::vector<int64_t> batches() const;
  int64_t passes(int64_t batch) const { return global_batch > 0 ? global_batch / batch : accumulate; }
  double sample_ms(int64_t batch, double step_ms) const { return step_ms / static_cast<double>(batch * passes(batch)); }
};

// Whether a batch is faster than another, given their times per sample.
inline bool gains(double sample_ms, double other_ms) { return sample_ms < 0.99 * other_ms; }

class BestPlanByBatchPredictor {
 public:
  struct BatchPrediction {
    int64_t batch = 0;
    std::optional<planner::PredictedPlan> step;  // the best; none: no plan fits the budget
    double sample_ms = 0;                        // predicted time per sample of `step`
  };

  struct BatchSearch {
    std::vector<const BatchPrediction*> predictions;  // ascending, without batches that cannot be predicted
    bool ended = false;  // the last one does not fit, or does not gain over a batch of at most half its size
  };

  BestPlanByBatchPredictor(const GlobalBatchOrAccumulationSteps& size, const planner::PlanMemoryBudgets& limits,
                           bool disk)
      : size_(size), limits_(limits), disk_(disk) {}

  // Adds a recording, at most two. `facts`: of the program at the batch of the first recording.
  void add(planner::BatchSizeAndRecordedCosts recorded, const plan::ProgramFacts& facts);
  // True if there are two recordings from which other batches can be predicted.
  bool can_extrapolate() const;

  // The prediction for `batch`, valid as long as this object. Its step is `none` if that fits the budget, else the best
  // plan. Returns null if the batch cannot be predicted.
  const BatchPrediction* prediction(int64_t batch);
  // Predicts these batches in ascending order, until the search has ended.
  BatchSearch search(std::span<const int64_t> batches);
  // predict() and least_bytes() need an earlier prediction() of that batch that was not null.
  planner::StepPrediction predict(int64_t batch, const plan::Plan& plan) const;
  int64_t least_bytes(int64_t batch) const;
  // Computes a smaller plan for `batch` after its plan had a measured peak of `measured_bytes` (0: out of memory).
  // Returns false if there is no other plan.
  bool correct(int64_t batch, int64_t measured_bytes);

 private:
  struct BatchPlanner {
    BatchPrediction prediction;
    std::unique_ptr<plan::ProgramFacts> facts;
    std::unique_ptr<planner::Planner> planner;  // null if the batch cannot be predicted
  };

  std::optional<plan::RecordedStepCosts> costs_at(int64_t batch) const;
  void set_step(BatchPlanner& book, std::optional<planner::PredictedPlan> step) const;

  const GlobalBatchOrAccumulationSteps size_;
  const planner::PlanMemoryBudgets limits_;
  const bool disk_;
  plan::ProgramFacts facts_;
  std::vector<planner::BatchSizeAndRecordedCosts> recorded_;
  std::map<int64_t, BatchPlanner> planners_;
};

}  // namespace memtune::sweep
