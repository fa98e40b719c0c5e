// The result of "memtune plan --from", as text and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/planner/planner.h"
#include "core/record/measurement/trial_prediction.h"

namespace memtune::report {

// Bounds of a predicted step time.
struct PredictedStepTimeRange {
  double from_ms = 0, to_ms = 0;
};

// A budget and the best plan that fits it; no step if no plan does.
struct BestPlanForBudget {
  int64_t budget_bytes = 0;
  std::optional<planner::PredictedPlan> step;
  std::optional<planner::PlanReasons> reasons;  // if requested
  std::optional<PredictedStepTimeRange> range;  // for another machine

  result::TrialPrediction predicted() const;  // of `step`
};

struct PlansByBudgetReport {
  std::string title, strategy;  // strategy: of the recorded step; only a step of `none` is measured
  double none_ms = 0;
  int64_t least_bytes = 0;  // lower bound for all plans
  std::vector<BestPlanForBudget> budget_ladder;
  std::vector<std::string> notes;  // for the user
};

// Lines have at most `width` characters, except in the table.
std::string to_text(const PlansByBudgetReport& answer, const plan::ProgramFacts& program, int width);

nlohmann::json to_json(const PlansByBudgetReport& answer);

}  // namespace memtune::report
