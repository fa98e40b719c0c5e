// Whether strategies fit a card, and how long their steps take there, from a step that was recorded on shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/facts/machine_profile.h"
#include "core/plan/planner/planner.h"
#include "core/plan/request/trial_request.h"
#include "core/sweep/predict/steps_on_shapes.h"

namespace memtune::sweep {

// What bytes and times rest on, for the user.
std::vector<std::string> basis_notes();

struct StrategyGpuMemoryFit {
  std::string strategy;
  int64_t allocated_bytes = 0;  // peak
  int64_t device_bytes = 0;     // with free memory of the allocator, context and libraries
  double least_ms = 0, most_ms = 0;
  bool fits = false;
};

class ShapeOnlyStepFitAndTimePredictor {
 public:
  // `recorded` and `card` must outlive it.
  ShapeOnlyStepFitAndTimePredictor(const ShapeOnlyStepFactsAndCosts& recorded, const plan::MachineProfile& card,
                                   const plan::TrainingSettings& training);

  bool can_predict(const plan::Plan& plan) const { return planner_.can_predict(plan); }
  // `peaks`: of steps that ran on shapes; without them, memory is simulated.
  StrategyGpuMemoryFit predict(const plan::Plan& plan, const std::optional<ShapeOnlyStepPeakBytes>& peaks) const;
  // The fastest plan that fits.
  std::optional<planner::PredictedPlan> best_plan(const std::string& name) const;
  StrategyGpuMemoryFit fit_of(const planner::PredictedPlan& plan) const;
  int64_t least_bytes() const;  // that any plan needs

 private:
  StrategyGpuMemoryFit fit_of(const std::string& strategy, const planner::StepPrediction& step, bool fits) const;

  const plan::MachineProfile& card_;
  const planner::PlanMemoryBudgets limits_;
  const planner::Planner planner_;
};

}  // namespace memtune::sweep
