// The plan of least time whose peak keeps a budget, worked out from the costs that one trial recorded.
//
//   ways to treat each block ──> chain, label programme ──> choices, best first ──> StepModel: time and peak of each
//                                      ^                                                        │
//                                      └──── the chain's budget, until the peaks agree <────────┘
//
// The chain is quick and rough, the model exact and slower: what the chain finds is scored by the model, and the best
// of it is made better by changing a block at a time, until it is near what StepBound proves. What was scored is kept:
// a search for another budget begins with it. A second for 48 blocks; several budgets are searched side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/planner/block_options.h"
#include "core/planner/chain.h"
#include "core/planner/plan_reasons.h"
#include "core/planner/step_bound.h"
#include "core/planner/step_model.h"

namespace memtune::planner {

struct PlannedStep {
  config::Plan plan;
  StepPrediction predicted;
  std::vector<int> choice = {};  // an option of each part
  double least_ms = 0;           // no plan that keeps the limits takes less on paper: StepBound
};

struct PlanLimits {
  int64_t budget_bytes = 0;       // of device memory, allocated
  int64_t host_budget_bytes = 0;  // 0: none
  int64_t disk_budget_bytes = 0;  // 0: none

  bool kept_by(const StepPrediction& step) const {
    return step.peak_bytes <= budget_bytes && (host_budget_bytes == 0 || step.host_peak_bytes <= host_budget_bytes) &&
           (disk_budget_bytes == 0 || step.disk_peak_bytes <= disk_budget_bytes);
  }
};

// Where a step's values may go under them: to a disk whose speed is known, where there is one.
StepTiers tiers(const PlanLimits& limits, bool disk, const config::StepCosts& costs);

// Budgets from `most_bytes`, of everything kept, down to `least_bytes`; fewer where they are near each other, and
// `most_bytes` alone where that is less than the least; all else as `limit`.
std::vector<PlanLimits> rungs(int64_t most_bytes, int64_t least_bytes, PlanLimits limit);

class Planner {
 public:
  using NamePlan = std::function<std::string(const PlanLimits& limits)>;

  // `facts` is of the program that `costs` were recorded of, and outlives it. `tiers`: of the steps that are planned;
  // values may go to the disk where host memory has a budget.
  Planner(const config::ProgramFacts& facts, config::StepCosts costs, const StepTiers& tiers = {});
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  StepPrediction predict(const config::Plan& plan) const { return model_->predict(plan, tiers_); }
  // Nothing where no plan that it knows keeps the limits. `name` is the plan's.
  std::optional<PlannedStep> plan(const PlanLimits& limits, const std::string& name) const;
  // The plan that takes least memory of the device of those that it knows and that keep all else of the limits.
  PlannedStep least_memory(PlanLimits limits, const std::string& name) const;
  // A plan for each of several limits, in any order: none is slower than that of tighter ones. `begin` is called as
  // each search is waited for, with how many have ended before it.
  std::vector<std::optional<PlannedStep>> ladder(std::span<const PlanLimits> limits, const NamePlan& name,
                                                 const std::function<void(size_t)>& begin = {}) const;

  // Of a plan that it made.
  PlanReasons reasons(const PlannedStep& step) const;

  // From now on the link carries so much of what it was measured to carry alone.
  void scale_link(double factor);

 private:
  friend class PlanSearch;
  friend class ReasonFinder;
  using Choice = std::vector<int>;  // an option of each of `parts_`
  using Scores = std::map<Choice, StepPrediction>;

  const StepPrediction& score(const Choice& choice, Scores& scores) const;
  const StepPrediction& score(const Choice& choice) const { return score(choice, scores_); }
  void search(std::span<const PlanLimits> limits, const std::function<void(size_t)>& begin) const;
  PlannedStep planned(const Choice& choice, const PlanLimits& limits, const std::string& name) const;
  std::optional<double> least_ms(const PlanLimits& limits) const;
  Chain make_chain() const;
  config::Plan make_plan(const Choice& choice, const std::string& name) const;

  const config::ProgramFacts& facts_;
  const plan::MemoryGraph graph_;
  config::StepCosts costs_;
  const StepTiers tiers_;
  const double out_gb_per_s_, in_gb_per_s_;  // as recorded
  std::optional<StepModel> model_;
  OptionLimits limits_;
  std::optional<StepBound> bound_;
  std::vector<BlockChoices> parts_;  // before the blocks, the blocks, behind them
  mutable Scores scores_;
};

}  // namespace memtune::planner
