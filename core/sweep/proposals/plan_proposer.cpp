#include "core/sweep/proposals/plan_proposer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/plan/planner/planner.h"
#include "core/plan/strategy/third_party_engine_preset.h"
#include "core/record/measurement/trial_result_row.h"
#include "core/sweep/proposals/recorded_costs.h"
#include "core/sweep/proposals/trial_proposer.h"

namespace memtune::sweep {
namespace {

using planner::Planner;
using planner::PredictedPlan;
using planner::StepPrediction;
using result::TrialMeasurement;
using result::TrialOutcome;

constexpr int kCorrections = 2;
// Another plan is run only if it takes less than this part of the last plan's corrected prediction.
constexpr double kWorthATrial = 0.99;
constexpr double kLate = 1.02;             // a step that takes more than this times the prediction
constexpr int64_t kLessAfterFailure = 32;  // part of the memory by which a plan that failed is made smaller, at least
constexpr double kSlowestLink = 0.3;       // least factor on the copy bandwidth
// Largest relative difference between the recorded and the measured peak of the baseline.
constexpr double kSameStep = 0.02;

result::TrialPrediction predicted(const StepPrediction& step) {
  return {step.step_ms,         step.peak_bytes,      0,
          step.host_peak_bytes, step.disk_peak_bytes, step.required_bytes > step.peak_bytes ? step.required_bytes : 0};
}
result::TrialPrediction predicted(const PredictedPlan& step) {
  result::TrialPrediction told = predicted(step.predicted);
  told.least_ms = step.least_ms;
  return told;
}

// The search for the plan of one setting.
class SettingSearch {
 public:
  SettingSearch(const CandidateStrategiesAndUserPlanFiles& candidates, const InspectedModelAtShape& setting,
                size_t index, const planner::PlanMemoryBudgets& limits, bool disk, const std::string& own)
      : candidates_(candidates),
        program_(setting.facts.program),
        index_(index),
        disk_(disk),
        own_(own),
        limits_(limits),
        goal_bytes_(limits.budget_bytes) {}

  std::vector<TrialProposal> next(std::span<const FinishedProposal> tried) {
    proposals_.clear();
    std::vector<const FinishedProposal*> mine;
    for (const FinishedProposal& one : tried)
      if (one.setting == index_) mine.push_back(&one);
    if (mine.empty())
      first();
    else if (planner_ && corrections_ < kCorrections)
      correct(mine);
    else if (!planner_ && !ended_)
      begin(*mine.back());
    return std::exchange(proposals_, {});
  }

  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

  // By the current predictions.
  const std::vector<result::TrialPrediction>& frontier(const TrialProposer::Begin& begin) {
    if (!planner_ || !frontier_.empty()) return frontier_;
    const int64_t least = planner_->least_memory(limits_, "").predicted.required_bytes;
    const auto budget_ladder = planner::budget_ladder(planner_->predict({}).required_bytes, least, limits_);
    const auto unnamed = [](const planner::PlanMemoryBudgets&) { return ""; };
    for (const auto& step :
         planner_->plan_budgets(budget_ladder, unnamed, [&](size_t i) { begin(i + 1, budget_ladder.size()); }))
      if (step) frontier_.push_back(predicted(*step));
    std::ranges::sort(frontier_, {}, &result::TrialPrediction::peak_bytes);
    const auto same = [](const auto& a, const auto& b) { return a.peak_bytes == b.peak_bytes; };
    frontier_.erase(std::unique(frontier_.begin(), frontier_.end(), same), frontier_.end());
    return frontier_;
  }

 private:
  struct Strategy {
    std::string name;
    plan::Plan plan;
    StepPrediction step;  // predicted
    bool expandable_segments = false;
  };

  void propose(const PredictedPlan& step) {
    planned_.push_back(step);
    proposals_.push_back(
        {step.plan.strategy, index_, step.plan, predicted(step), false, {}, step.predicted.short_bytes > 0});
  }
  void propose(const Strategy& strategy) {
    proposals_.push_back(
        {strategy.name, index_, strategy.plan, predicted(strategy.step), false, {}, strategy.expandable_segments});
  }

  // Proposes the baseline. Makes the plans of all others too, so that parts that the model lacks are reported before
  // any trial.
  void first() {
    const CandidateStrategyOrUserPlanFile& baseline = candidates_.all().front();
    record(baseline.name(), baseline.make_plan(program_));
    for (size_t i = 1; i < candidates_.all().size(); ++i) try {
        const CandidateStrategyOrUserPlanFile& candidate = candidates_.all()[i];
        strategies_.push_back({candidate.name(), candidate.make_plan(program_), {}});
      } catch (const UsageError& error) {
        notes_.push_back(std::string("left out: ") + error.what());
      }
  }

  // Proposes a trial that records its step costs, for the planner.
  void record(const std::string& name, const plan::Plan& plan) {
    source_ = {name, plan, {}};
    recorded_.push_back(name);
    proposals_.push_back({name, index_, plan, {}, true});
  }

  void begin(const FinishedProposal& source) {
    const TrialMeasurement& measured = source.measurement;
    const bool is_baseline = source.name == candidates_.all().front().name();
    had_room_ = measured.outcome != TrialOutcome::device_oom;
    if (!worked(measured)) return begin_smaller(source, is_baseline);
    if (is_baseline && required_bytes(measured) <= limits_.budget_bytes) {
      notes_.push_back(source.name + " fits the budget of " + format_bytes(limits_.budget_bytes) +
                       ": no plan is needed");
      propose_own();
      ended_ = true;
      return;
    }
    std::string why;
    const auto costs = read_costs(source.folder, program_, &why);
    if (!costs) return try_all(failed_ + source.name + ": " + why);
    auto planner = std::make_unique<Planner>(program_, *costs,
                                             planner::tiers(limits_, disk_, !candidates_.fallback().empty(), *costs));
    const auto peak = static_cast<double>(measured.peak_bytes.allocated);
    if (std::abs(static_cast<double>(planner->predict(source_.plan).peak_bytes) / peak - 1) > kSameStep)
      return try_all(failed_ + "the recorded step differs from the measured one");
    planner_ = std::move(planner);
    least_bytes_ = required_bytes(measured);
    if (!is_baseline) plan_below(planner_->predict({}), source.name);
    plan_first();
  }

  // If the baseline runs out of memory, checkpoint:full may fit, or what keeps its parameters and optimizer states in
  // host memory. Their step costs serve as well.
  void begin_smaller(const FinishedProposal& source, bool is_baseline) {
    failed_ += source.name + " ended in " + to_string(source.measurement.outcome);
    if (!ended_out_of_memory(source.measurement)) return try_all(failed_);
    const auto smaller = std::ranges::find(strategies_, kCommonStrategy, &Strategy::name);
    if (is_baseline && smaller != strategies_.end()) {
      failed_ += ", ";
      return record(smaller->name, smaller->plan);
    }
    const std::optional<Strategy> smallest =
        source.measurement.outcome == TrialOutcome::device_oom && (source.name == kCommonStrategy || is_baseline)
            ? fallback()
            : std::nullopt;
    if (!smallest) return try_all(failed_);
    failed_ += ", ";
    record(smallest->name, smallest->plan);
  }

  // One that records costs.
  std::optional<Strategy> fallback() const {
    for (const CandidateStrategyOrUserPlanFile& candidate : candidates_.fallback()) try {
        plan::Plan plan = candidate.make_plan(program_);
        if (!plan.offloads_activations()) return Strategy{candidate.name(), std::move(plan), {}};
      } catch (const UsageError&) {  // for models with blocks
      }
    return {};
  }

  // Plans for less than the baseline's predicted peak, because the baseline did not fit, whatever the budget is.
  void plan_below(const StepPrediction& baseline, const std::string& source) {
    notes_.push_back(failed_ + "so " + source +
                     " is planned from: without checkpointing its step is predicted to take " +
                     format_bytes(baseline.required_bytes) + " and " + ms_text(baseline.step_ms));
    limits_.budget_bytes = std::min(limits_.budget_bytes, baseline.required_bytes - 1);
    goal_bytes_ = limits_.budget_bytes;
  }

  void propose_own() {
    for (const Strategy& strategy : strategies_)
      if (strategy.name == own_ && strategy.name != source_.name)
        proposals_.push_back({strategy.name, index_, strategy.plan, {}});
  }

  void try_all(const std::string& why) {
    ended_ = true;
    notes_.push_back(why + ", so there is nothing to plan from: all strategies are tried");
    const auto has_run = [this](const std::string& name) { return std::ranges::count(recorded_, name) > 0; };
    for (const Strategy& strategy : strategies_)
      if (!has_run(strategy.name)) proposals_.push_back({strategy.name, index_, strategy.plan, {}});
    if (had_room_) return;
    for (const CandidateStrategyOrUserPlanFile& candidate : candidates_.fallback()) try {
        if (!has_run(candidate.name()))
          proposals_.push_back({candidate.name(), index_, candidate.make_plan(program_), {}});
      } catch (const UsageError&) {  // for models with blocks
      }
  }

  void plan_first() {
    const auto planned = planner_->plan(limits_, name());
    if (planned) {
      propose(*planned);
      if (planned->plan.offloads_states()) note_states(*planned);
    }
    propose_rivals();
    if (planned) return;
    const PredictedPlan least = planner_->least_memory(limits_, "plan:least");
    notes_.push_back("no plan is predicted to fit " + format_bytes(limits_.budget_bytes) + "; the smallest takes " +
                     format_bytes(least.predicted.required_bytes));
    if (!least.plan.placements.empty() || least.plan.offloads_states()) propose(least);
  }

  void note_states(const PredictedPlan& step) {
    const auto in_block = [](const plan::UnitStatePlacement& one) { return one.unit != plan::kOutsideUnits; };
    const auto blocks = std::ranges::count_if(step.plan.states, in_block);
    notes_.push_back(step.plan.strategy + " offloads parameters and optimizer states of " + std::to_string(blocks) +
                     " of " + std::to_string(program_.blocks.size()) +
                     " blocks to host memory: with all of them on the " + "device, no plan fits " +
                     format_bytes(limits_.budget_bytes) + ", or only a much slower one");
  }

  // Proposes three of the strategies that are predicted to fit: the fastest, the fastest without offload, and
  // checkpoint:full. The notes name the others. The user's own strategy always runs, and presets that offload
  // each saved tensor, because they cannot be predicted.
  void propose_rivals() {
    std::vector<Strategy> rivals;
    std::vector<std::string> too_large, too_slow;
    for (Strategy& strategy : strategies_) {
      if (strategy.name == source_.name) continue;  // has run
      if (!planner_->can_predict(strategy.plan)) {
        proposals_.push_back({strategy.name, index_, strategy.plan, {}});
        continue;
      }
      strategy.step = planner_->predict(strategy.plan);
      if (strategy.name == own_) {
        propose(strategy);
        continue;
      }
      if (limits_.satisfied_by(strategy.step))
        rivals.push_back(on_device(strategy));
      else
        too_large.push_back(strategy.name + " " + format_bytes(strategy.step.required_bytes));
    }
    std::ranges::stable_sort(rivals, {}, [](const Strategy& rival) { return rival.step.step_ms; });
    const auto still = std::ranges::find(rivals, 0, [](const Strategy& rival) { return rival.step.out_bytes; });
    for (auto rival = rivals.begin(); rival != rivals.end(); ++rival)
      if (rival == rivals.begin() || rival == still || rival->name == kCommonStrategy)
        propose(*rival);
      else
        too_slow.push_back(rival->name + " " + ms_text(rival->step.step_ms));
    if (!too_large.empty()) notes_.push_back("not run, because of their predicted memory: " + join(too_large, ", "));
    if (!too_slow.empty())
      notes_.push_back("not run, because they are predicted to be slower: " + join(too_slow, ", "));
  }

  Strategy on_device(Strategy strategy) const {
    const StepPrediction step = planner_->predict_on_device(strategy.plan, limits_.budget_bytes);
    strategy.expandable_segments = step.short_bytes > 0;
    if (!strategy.expandable_segments) strategy.step = step;
    return strategy;
  }

  // Corrects the prediction by what the last plan measured.
  void correct(const std::vector<const FinishedProposal*>& tried) {
    if (planned_.empty()) return;
    const PredictedPlan last = planned_.back();
    const auto found =
        std::ranges::find_if(tried, [&](const FinishedProposal* one) { return one->name == last.plan.strategy; });
    if (found == tried.end()) return;
    const TrialMeasurement& measured = (*found)->measurement;
    if (!worked(measured) && !ended_out_of_memory(measured)) return;
    ++corrections_;
    const bool late = worked(measured) && measured.step_ms.median > kLate * last.predicted.step_ms;
    const bool too_large = required_bytes(measured) > limits_.budget_bytes;
    const bool as_planned = ran_as_planned(last, measured, late);
    const bool broke = too_large || !as_planned;
    const bool slower = as_planned && late && last.predicted.out_bytes > 0;
    if (slower) slow_link(last.plan, measured.step_ms.median);
    if (!broke && !slower) return;
    // A plan that is safe comes before one for less memory.
    if (broke && (too_large || last.safe)) goal_bytes_ = goal_behind(last, measured);
    auto again = planned_again(broke);
    if (broke && again && again->choice == last.choice) {
      goal_bytes_ = goal_behind(last, measured);
      again = planned_again(broke);
    }
    if (!again || again->choice == last.choice) return;
    if (!broke && again->predicted.step_ms > kWorthATrial * planner_->predict(last.plan).step_ms) return;
    propose(*again);
  }

  std::optional<PredictedPlan> planned_again(bool safe) const {
    planner::PlanMemoryBudgets goal = limits_;
    goal.budget_bytes = goal_bytes_;
    return planner_->plan(goal, name(), safe);
  }

  // False if the allocator needed more than was predicted: the plan ran out of memory, needed expandable segments, or
  // was late because the allocator gave memory back and took it again.
  static bool ran_as_planned(const PredictedPlan& plan, const TrialMeasurement& measured, bool late) {
    return worked(measured) && (measured.allocator.empty() || plan.predicted.short_bytes > 0) &&
           !(late && measured.allocator_retries > 0);
  }

  // A plan that ran out of memory does not show by how much: the next budget is halfway to memory that is known to
  // suffice, or a few percent less.
  int64_t goal_behind(const PredictedPlan& last, const TrialMeasurement& measured) const {
    const int64_t predicted = last.predicted.required_bytes;
    if (worked(measured) && required_bytes(measured) > limits_.budget_bytes)
      return goal_bytes_ - std::max<int64_t>(1, required_bytes(measured) - predicted);
    return predicted - std::max(predicted / kLessAfterFailure, (predicted - least_bytes_) / 2);
  }

  // Scales the copy bandwidth so that the plan's predicted step is as long as the measured one.
  void slow_link(const plan::Plan& plan, double step_ms) {
    frontier_.clear();
    double low = kSlowestLink, high = 1;
    for (int i = 0; i < 8; ++i) {
      const double middle = (low + high) / 2;
      planner_->scale_link(middle);
      (planner_->predict(plan).step_ms > step_ms ? low : high) = middle;
    }
  }

  std::string name() const {
    return "plan:" + format_bytes(limits_.budget_bytes) +
           (planned_.empty() ? "" : "-" + std::to_string(planned_.size() + 1));
  }

  const CandidateStrategiesAndUserPlanFiles& candidates_;
  const plan::ProgramFacts& program_;
  const size_t index_;
  const bool disk_;
  const std::string own_;  // the strategy of the user's config; "": none
  planner::PlanMemoryBudgets limits_;
  int64_t goal_bytes_;       // the planner's budget, so that the measured peak fits
  int64_t least_bytes_ = 0;  // a peak that is known to fit
  std::vector<Strategy> strategies_;
  Strategy source_;                    // whose step costs are recorded
  std::vector<std::string> recorded_;  // it, and those before it
  std::string failed_;                 // what was tried first and failed, for the notes
  bool had_room_ = true;
  std::unique_ptr<Planner> planner_;
  std::vector<PredictedPlan> planned_;
  std::vector<result::TrialPrediction> frontier_;  // empty: not computed, or outdated
  int corrections_ = 0;
  bool ended_ = false;  // no plan will be computed
  std::vector<TrialProposal> proposals_;
  std::vector<std::string> notes_;
};

class PlanProposer : public TrialProposer {
 public:
  PlanProposer(const CandidateStrategiesAndUserPlanFiles& candidates,
               const std::vector<InspectedModelAtShape>& settings, const planner::PlanMemoryBudgets& limits, bool disk,
               const std::string& own)
      : settings_(settings) {
    for (size_t i = 0; i < settings.size(); ++i) searches_.emplace_back(candidates, settings[i], i, limits, disk, own);
  }

  std::vector<TrialProposal> next(std::span<const FinishedProposal> tried) override {
    std::vector<TrialProposal> proposals;
    for (SettingSearch& search : searches_)
      for (TrialProposal& proposal : search.next(tried)) proposals.push_back(std::move(proposal));
    return proposals;
  }

  std::vector<std::string> take_notes() override {
    std::vector<std::string> notes;
    for (size_t i = 0; i < searches_.size(); ++i)
      for (const std::string& note : searches_[i].take_notes()) notes.push_back(whose(i) + note);
    return notes;
  }

  std::vector<result::TrialPrediction> frontier(size_t setting, const Begin& begin) override {
    return searches_.at(setting).frontier(begin);
  }

 private:
  // "batch 4: " if there are several settings.
  std::string whose(size_t setting) const {
    if (searches_.size() == 1) return "";
    return result::axes_text(settings_[setting].batch, settings_[setting].sequence) + ": ";
  }

  const std::vector<InspectedModelAtShape>& settings_;
  std::vector<SettingSearch> searches_;
};

}  // namespace

TrialProposerFactory propose_plans(const planner::PlanMemoryBudgets& limits, bool disk, const std::string& own) {
  return
      [=](const CandidateStrategiesAndUserPlanFiles& candidates, const std::vector<InspectedModelAtShape>& settings) {
        return std::make_unique<PlanProposer>(candidates, settings, limits, disk, own);
      };
}

}  // namespace memtune::sweep
