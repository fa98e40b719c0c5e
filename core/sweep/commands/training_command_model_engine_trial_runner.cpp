#include "core/sweep/commands/training_command_model_engine_trial_runner.h"

#include <algorithm>
#include <utility>

#include "core/answer/result/effect.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/answer/trainer/rendered_python_plan.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/plan/rules/strategy.h"
#include "core/plan/strategy/strategy.h"
#include "core/plan/strategy/third_party_engine_preset.h"
#include "core/sweep/proposals/plan_proposer.h"
#include "core/sweep/proposals/recorded_costs.h"

namespace memtune::sweep {
namespace {

using result::TrialResultRow;

// Forwards events, marked as memtune's own trials.
class OwnTrials : public SweepListener {
 public:
  explicit OwnTrials(SweepListener& to) : to_(to) {}

  void noted(const std::string& note) override { to_.noted(kWhose + note); }
  void inspecting(const TrialPhaseProgress& phase) override { to_.inspecting(phase); }
  void planned(const std::vector<SweepTrialEntry>& trials, size_t, size_t runs) override {
    to_.planned(trials, 0, runs);
  }
  void planning(size_t budget, size_t budgets) override { to_.planning(budget, budgets); }
  void started(const SweepTrialEntry& trial, int round) override {
    SweepTrialEntry named = trial;
    named.strategy = kWhose + trial.strategy;
    to_.started(named, round);
  }
  void phase(const TrialPhaseProgress& phase) override { to_.phase(phase); }
  void ended(const result::TrialMeasurement& measurement) override { to_.ended(measurement); }

 private:
  inline static const std::string kWhose = "memtune's own trials: ";
  SweepListener& to_;
};

}  // namespace

planner::PlanMemoryBudgets limits_of(const plan::TrainingSettings& training, int64_t budget_bytes,
                                     int64_t host_budget_bytes) {
  const int64_t own = training.host_budget_bytes;
  const bool both = own > 0 && host_budget_bytes > 0;
  return {budget_bytes, both ? std::min(own, host_budget_bytes) : std::max(own, host_budget_bytes)};
}

TrainingCommandModelEngineSweepRunner::TrainingCommandModelEngineSweepRunner(EngineSweepSettings settings,
                                                                             SweepListener& listener)
    : settings_(std::move(settings)), listener_(listener), limit_(settings_.time_limit) {
  settings_.rounds = 1;
  settings_.dry_run = false;
  settings_.save_modes.clear();
  settings_.plans.clear();
  settings_.fallback.clear();  // a plan for the command's own trainer offloads no states
}

bool TrainingCommandModelEngineSweepRunner::run_first(const std::string& strategy) {
  settings_.budget_bytes = 0;
  std::vector<std::string> strategies = {"none"};
  if (!strategy.empty()) strategies.push_back(strategy);
  return sweep(strategies, propose_all);
}

bool TrainingCommandModelEngineSweepRunner::run(const std::vector<std::string>& strategies, int64_t budget_bytes,
                                                int64_t host_budget_bytes) {
  settings_.budget_bytes = budget_bytes;
  settings_.notes.clear();  // already printed
  std::vector<std::string> tried = {"none"};
  for (const std::string& strategy : strategies)
    if (std::ranges::count(tried, strategy) == 0 && model_has(strategy)) tried.push_back(strategy);
  if (budget_bytes <= 0) return sweep(tried, propose_all);
  if (std::ranges::count(tried, "checkpoint:full") == 0 && model_has("checkpoint:full"))
    tried.emplace_back("checkpoint:full");  // plans start from it if `none` does not fit
  const planner::PlanMemoryBudgets limits = limits_of(settings_.request.training, budget_bytes, host_budget_bytes);
  if (!sweep(tried, propose_plans(limits, /*disk=*/false))) return false;
  work_out();
  return true;
}

bool TrainingCommandModelEngineSweepRunner::sweep(const std::vector<std::string>& strategies,
                                                  const TrialProposerFactory& proposer) {
  using std::chrono::milliseconds;
  const auto gone = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began_);
  if (limit_.count() > 0) settings_.time_limit = std::max(milliseconds(1), limit_ - gone);
  settings_.strategies = strategies;
  OwnTrials listener(listener_);
  result_ = run_sweep(settings_, listener, proposer);
  return !result_.interrupted;
}

bool TrainingCommandModelEngineSweepRunner::model_has(const std::string& strategy) const try {
  plan::make_plan(plan::Strategy::parse(strategy), result_.record.facts.program);
  return true;
} catch (const UsageError&) {
  return false;
}

// Simulates the strategies that did not run.
void TrainingCommandModelEngineSweepRunner::work_out() {
  const plan::ProgramFacts& program = result_.record.facts.program;
  for (const SweepTrialEntry& trial : result_.record.trials) {
    const auto costs = read_costs(settings_.directory / trial.folder, program);
    if (!costs) continue;
    const planner::Planner planner(program, *costs);
    for (const std::string& name : settings_.strategies) {
      const plan::Plan plan = plan::make_plan(plan::Strategy::parse(name), program);
      if (!planner.can_predict(plan)) continue;
      const auto predicted = planner.predict(plan);
      predictor_[name] = {predicted.step_ms, predicted.required_bytes, false};
    }
    return;
  }
}

const TrialResultRow* TrainingCommandModelEngineSweepRunner::row(const std::string& strategy) const {
  const auto found = std::ranges::find_if(
      result_.report.rows, [&](const TrialResultRow& row) { return row.measurement.strategy == strategy; });
  return found == result_.report.rows.end() ? nullptr : &*found;
}

std::optional<EngineMeasuredOrSimulatedStepTimeAndPeak> TrainingCommandModelEngineSweepRunner::step(
    const std::string& strategy) const {
  const TrialResultRow* measured = row(strategy);
  if (measured && result::usable(measured->measurement))
    return EngineMeasuredOrSimulatedStepTimeAndPeak{measured->measurement.step_ms.median, required_bytes(*measured)};
  const auto known = predictor_.find(strategy);
  return measured || known == predictor_.end() ? std::nullopt : std::optional(known->second);
}

std::string TrainingCommandModelEngineSweepRunner::failure() const {
  const auto worked = [](const TrialResultRow& row) { return result::usable(row.measurement); };
  if (std::ranges::any_of(result_.report.rows, worked)) return "";
  const TrialResultRow* none = row("none");
  return none ? to_string(none->measurement.outcome) + ": " + none->measurement.reason : "no trial has run";
}

// The fastest plan that fits the budget; without a budget the recommended row.
const TrialResultRow* TrainingCommandModelEngineSweepRunner::planned_row() const {
  const TrialResultRow* best = nullptr;
  const result::WorkNormalizedTrialComparator ranking{std::span<const TrialResultRow>(result_.report.rows)};
  for (const TrialResultRow* row : result::choices(result_.report.rows)) {
    if (settings_.budget_bytes <= 0 ? !row->recommended : !is_planned(*row)) continue;
    if (had_no_effect(row->measurement)) continue;
    if (settings_.budget_bytes > 0 && required_bytes(*row) > settings_.budget_bytes) continue;
    if (!best || ranking.faster(*row, *best)) best = row;
  }
  return best;
}

PythonPlanOrFailureReason TrainingCommandModelEngineSweepRunner::plan(
    const std::function<bool(const std::string&)>& has_keys) const {
  const std::string budget = format_bytes(settings_.budget_bytes);
  const TrialResultRow* none = row("none");
  if (settings_.budget_bytes > 0 && none && result::usable(none->measurement) &&
      required_bytes(*none) <= settings_.budget_bytes)
    return {"", "",
            "no plan is needed: without checkpointing memtune's own trial takes " +
                format_bytes(required_bytes(*none)) + " of " + budget};
  const TrialResultRow* best = planned_row();
  if (!best) return {"", "", "memtune's own trials found no plan that fits " + budget};
  const std::string& name = best->measurement.strategy;
  if (!is_planned(*best) && (name == "none" || has_keys(effective_strategy(best->measurement))))
    return {"", "", "no plan is needed: the best of memtune's own trials is " + name};
  const std::optional<plan::Plan> plan = read_plan(settings_.directory / best->measurement.plan);
  if (!plan) return {"", "", "the plan of " + name + " is not in " + settings_.directory.string() + " any more"};
  try {
    trainer::RenderedPythonPlan python =
        trainer::write_python_plan(*plan, result_.record.facts.program, *best, result_.report);
    return {name, std::move(python.text), "", std::move(python.notes), peak(*best)};
  } catch (const UsageError& error) {
    return {"", "", error.what()};
  }
}

double TrainingCommandModelEngineSweepRunner::tokens() const {
  for (const TrialResultRow& row : result_.report.rows)
    if (result::usable(row.measurement)) return result::amount(row.measurement, result::WorkUnit::token);
  return 0;
}

}  // namespace memtune::sweep
