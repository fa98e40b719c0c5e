// Finds the fastest plan that fits a memory budget, by simulation from the costs that one trial recorded.
//
//   options of each block ──> chain, label programme ──> choices, best first ──> StepPredictor: time and peak of each
//                                    ^                                                        │
//                                    └──── the chain's budget, until the peaks agree <────────┘
//
// The chain is fast and rough; the model is exact and slower. The model scores the choices that the chain finds. The
// best one is then improved block by block, until it is near the bound of StepTimeLowerBound. Scores are kept, and a
// search for another budget starts with them. A search takes a few seconds for 48 blocks. Several budgets, and sizes of
// the stash, are searched in parallel.
//
// Parameters and optimizer states are offloaded only if no plan, or only a slow one, fits without: Placement.
//
// Taken is the fastest choice that the simulated allocator of a device of the budget's size can run (tight), or one
// that two allocators can run, with segments of fixed size and with one segment that grows (safe).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/plan/planner/block_options.h"
#include "core/plan/planner/chain_planning_problem.h"
#include "core/plan/planner/core_semaphore.h"
#include "core/plan/planner/plan_reasons.h"
#include "core/plan/planner/step_predictor.h"
#include "core/plan/planner/step_time_lower_bound.h"

namespace memtune::planner {

struct PredictedPlan {
  plan::Plan plan;
  StepPrediction predicted;
  std::vector<int> choice = {};  // an option of each part, then the plan's Planner::Variant
  double least_ms = 0;           // no plan within the limits is predicted to be faster: StepTimeLowerBound
  bool safe = false;             // also fits in one segment that grows, as with expandable_segments
};

struct PlanMemoryBudgets {
  int64_t budget_bytes = 0;       // of the device: StepPrediction::required_bytes
  int64_t host_budget_bytes = 0;  // 0: no limit
  int64_t disk_budget_bytes = 0;  // 0: no limit

  bool satisfied_by(const StepPrediction& step) const {
    return step.required_bytes <= budget_bytes &&
           (host_budget_bytes == 0 || step.host_peak_bytes <= host_budget_bytes) &&
           (disk_budget_bytes == 0 || step.disk_peak_bytes <= disk_budget_bytes);
  }
};

// Where a step under `limits` may offload to. The disk counts only if `disk` is true and its speed is known. `states`:
// parameters and optimizer states may be offloaded.
AllowedOffloadTiersAndHostBudget tiers(const PlanMemoryBudgets& limits, bool disk, bool states,
                                       const plan::RecordedStepCosts& costs);

// Limits with budgets in equal steps from `most_bytes` (everything kept) down to `least_bytes`. Duplicates are dropped.
// If most_bytes < least_bytes, there is one, with `most_bytes`. Other limits are copied from `limit`.
std::vector<PlanMemoryBudgets> budget_ladder(int64_t most_bytes, int64_t least_bytes, PlanMemoryBudgets limit);

class Planner {
 public:
  // Sizes of TransferSettings::stash_bytes that are searched. A small one frees sources soon, so that the allocator
  // finds free memory in fewer pieces, but compute may have to wait for copies.
  static constexpr int64_t kStashBytes[] = {int64_t{8} << 30, int64_t{128} << 20};

  using NamePlan = std::function<std::string(const PlanMemoryBudgets& limits)>;

  // `costs` were recorded from the program of `facts`, which must outlive the planner. `tiers`: of the steps to plan;
  // the disk is used only if host memory has a budget. `cores`: that searches run on; no result depends on it.
  Planner(const plan::ProgramFacts& facts, plan::RecordedStepCosts costs,
          const AllowedOffloadTiersAndHostBudget& tiers = {}, unsigned cores = std::thread::hardware_concurrency());
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  bool can_predict(const plan::Plan& plan) const;
  StepPrediction predict(const plan::Plan& plan) const { return model_->predict(plan, tiers_); }
  // On a device of that size.
  StepPrediction predict_on_device(const plan::Plan& plan, int64_t device_bytes) const;
  // The fastest plan that is predicted to run on a device of the budget's size. Which free block the allocator takes is
  // not fully predictable, so the step may not fit after all. `safe`: prefers a plan of which that is less likely, a
  // few percent slower. A plan with short_bytes > 0 needs expandable segments: it lacks so much without them. Returns
  // nothing if no plan that was found fits the limits. `name`: of the plan.
  std::optional<PredictedPlan> plan(const PlanMemoryBudgets& limits, const std::string& name, bool safe = false) const;
  // The plan that requires least memory of those found that fit all other limits.
  PredictedPlan least_memory(PlanMemoryBudgets limits, const std::string& name) const;
  // One plan for each of several limits, in any order, safe where one is found. `begin` is called before the wait for
  // each search, with the number of searches that have ended.
  std::vector<std::optional<PredictedPlan>> plan_budgets(std::span<const PlanMemoryBudgets> limits,
                                                         const NamePlan& name,
                                                         const std::function<void(size_t)>& begin = {}) const;

  // `step` must come from this planner.
  PlanReasons reasons(const PredictedPlan& step) const;

  // Number of choices that were predicted for plans, since the last scale_link().
  size_t scored() const { return scores_.size(); }

  // Sets the PCIe bandwidth to `factor` times the recorded one and drops all scores.
  void scale_link(double factor);

 private:
  friend class BlockOptionPlanSearch;
  friend class PlanReasonFinder;
  static constexpr double kGood = 1.002;  // of the lower bound: fast enough, a search ends
  using Choice = std::vector<int>;        // an option of each of `parts_`, then a variant
  using Scores = std::map<Choice, StepPrediction>;
  // Both are on a device of the budget's size. A safe plan with short_bytes > 0 fits with expandable segments alone.
  struct FittingPlans {
    std::optional<PredictedPlan> tight, safe;
    bool none() const { return !tight && !safe; }
  };
  // Where parameters and optimizer states are in all plans of a variant.
  struct Placement {
    std::vector<plan::UnitStatePlacement> states;
    int64_t freed_bytes = 0;  // by so much less is on the device at any time, at most: with gradients
  };
  // What is alike in all parts of a plan: one of kStashBytes, and one of placements_ (0: nothing is offloaded).
  using Variant = int;
  // The variants of a placement, the least step of them with all blocks alike, and a lower bound of any.
  struct RankedPlacement {
    static constexpr double kNone = std::numeric_limits<double>::infinity();
    std::vector<Variant> variants = {};
    double alike_ms = kNone, least_ms = kNone;
  };

  StepPrediction predict_choice(const Choice& choice) const { return model_->predict(make_plan(choice, ""), tiers_); }
  // The part whose op runs, or whose saved tensor backward unpacks; 0 before the step and after it.
  size_t part_of_entry(size_t entry) const { return entry < part_of_entry_.size() ? part_of_entry_[entry] : 0; }
  const StepPrediction& score(const Choice& choice, Scores& scores) const;
  const StepPrediction& score(const Choice& choice) const { return score(choice, scores_); }
  int64_t stash_bytes(Variant variant) const;
  const Placement& placement(Variant variant) const;
  bool offloads_states(const Choice& choice) const { return !placement(choice.back()).states.empty(); }
  std::vector<Variant> variants(bool states) const;
  std::vector<RankedPlacement> ranked(const PlanMemoryBudgets& limits, std::span<const Variant> variants,
                                      Scores& scores) const;
  // `safe`: looks for a safe plan even if a tight one is known.
  std::vector<FittingPlans> search(std::span<const PlanMemoryBudgets> limits, std::span<const Variant> variants,
                                   const NamePlan& name, bool safe, const std::function<void(size_t)>& begin) const;
  FittingPlans search(const PlanMemoryBudgets& limits, std::span<const Variant> variants, const std::string& name,
                      bool safe, Scores& scores) const;
  FittingPlans search(const PlanMemoryBudgets& limits, Variant variant, const std::string& name, bool safe,
                      Scores& scores) const;
  int64_t take_fitting(const std::vector<Choice>& choices, const PlanMemoryBudgets& limits, const std::string& name,
                       Scores& scores, FittingPlans& found) const;
  bool is_slow(const PredictedPlan& step, const PlanMemoryBudgets& limits) const;
  void take_faster(std::optional<PredictedPlan>& best, std::optional<PredictedPlan> step) const;
  std::optional<PredictedPlan> plan_with_retries(const PlanMemoryBudgets& limits, const std::string& name) const;
  PredictedPlan planned(const Choice& choice, const PlanMemoryBudgets& limits, const std::string& name,
                        Scores& scores) const;
  StepPrediction predict_on_device(const Choice& choice, const PlanMemoryBudgets& limits,
                                   bool expandable_segments) const;
  std::optional<double> least_ms(const PlanMemoryBudgets& limits, Variant variant) const;
  ChainPlanningProblem make_chain() const;
  plan::Plan make_plan(const Choice& choice, const std::string& name) const;

  const plan::ProgramFacts& facts_;
  const plan::OpMemoryAccessGraph graph_;
  plan::RecordedStepCosts costs_;
  const AllowedOffloadTiersAndHostBudget tiers_;
  const double out_gb_per_s_, in_gb_per_s_;  // as recorded
  std::optional<StepPredictor> model_;
  BlockOptionGenerationSettings limits_;
  std::optional<StepTimeLowerBound> bound_;
  std::vector<Placement> placements_;  // from nothing offloaded to most
  std::vector<BlockOptionSet> parts_;  // before the blocks, the blocks, after them
  std::vector<size_t> part_of_entry_;  // by StepPrediction::peak_entry
  mutable CoreSemaphore cores_;
  mutable Scores scores_;
};

}  // namespace memtune::planner
