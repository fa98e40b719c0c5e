// "memtune plan --from RUN --batch N|auto": predicts the step of another batch from one or two recorded batches.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/run/run_directory.h"
#include "core/plan/planner/batch_extrapolated_cost_range.h"
#include "core/plan/planner/planner.h"
#include "core/sweep/proposals/best_plan_by_batch_predictor.h"

namespace memtune::sweep {

// The recorded batches of a run at the sequence of `source`, which comes first.
struct RecordedCostsByBatchSize {
  // Throws UsageError if the run's batch is unknown or cannot change.
  RecordedCostsByBatchSize(const RunDirectory& directory, const SweepJsonSettingsFactsAndTrials& record,
                           const SweepTrialEntry& source, plan::RecordedStepCosts costs);

  plan::ProgramFacts program;  // of the first batch
  std::vector<planner::BatchSizeAndRecordedCosts> batches;
  GlobalBatchOrAccumulationSteps size;
  double sample_tokens = 0;  // per sample; 0: no tokens
};

inline constexpr int64_t kMaxBatch = int64_t{1} << 24;

class OtherBatchCostPrediction {
 public:
  // `batch` 0 finds the batch with the most samples per second whose plan fits `limits`. Throws UsageError if the
  // batch does not divide the step, or if none fits.
  OtherBatchCostPrediction(RecordedCostsByBatchSize recorded, int64_t batch,
                           const std::optional<planner::PlanMemoryBudgets>& limits);

  const planner::BatchExtrapolatedCostRange& costs() const { return costs_; }
  const plan::ProgramFacts& program() const { return program_; }
  int64_t batch() const { return batch_; }

  std::string title() const;               // follows the name of the recorded step
  std::vector<std::string> notes() const;  // for the user
  nlohmann::json to_json() const;

 private:
  using BatchPrediction = sweep::BestPlanByBatchPredictor::BatchPrediction;

  bool is_worked_out(int64_t batch) const;
  bool was_recorded() const;
  bool is_of_one() const { return recorded_.batches[1].batch == 0; }
  std::string recorded_text() const;
  std::string rate_text(const BatchPrediction& one) const;
  void look_at_all(const planner::PlanMemoryBudgets& limits);

  RecordedCostsByBatchSize recorded_;  // the two to extrapolate from; the second may have no samples
  int64_t batch_ = 0;
  std::vector<BatchPrediction> looked_;  // that "auto" tried
  plan::ProgramFacts program_;
  planner::BatchExtrapolatedCostRange costs_;
};

}  // namespace memtune::sweep
