#include "core/sweep/predict/plans_by_budget_from_run_result.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/answer/report/text/pareto_plot.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/plan/planner/planner.h"
#include "core/sweep/predict/allocator_note.h"
#include "core/sweep/proposals/recorded_costs.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;
using planner::PlanMemoryBudgets;
using planner::Planner;
using report::BestPlanForBudget;
using report::PlansByBudgetReport;
using report::PredictedStepTimeRange;

struct Source {
  RunDirectory directory;
  plan::ProgramFacts program;
  plan::RecordedStepCosts costs;
  SweepJsonSettingsFactsAndTrials record;
  SweepTrialEntry trial;  // whose step was recorded
  std::string title;
  report::Report report;  // of the run
  std::string device;     // it was measured on; "": unknown
  bool emulated = false;  // emulated by the CPU
};

// Reads the first trial of the run that recorded the costs of its step.
Source read_source(const std::string& path) {
  const RunDirectory directory(path);
  const SweepJsonSettingsFactsAndTrials record = directory.read_record();
  if (record.command) throw UsageError("'" + path + "' is a sweep of a command: memtune cannot plan from it");
  for (const SweepTrialEntry& trial : record.trials) {
    const SweepTrialEntry& first = record.trials.front();  // facts are only known for these settings
    if (trial.batch != first.batch || trial.sequence != first.sequence) continue;
    if (const auto costs = read_costs(directory / trial.folder, record.facts.program)) {
      const auto measured = directory.read_measurement(trial.folder);
      std::string title = record.model + (measured ? " · " + measured->device : "");
      if (trial.sequence) title += ", sequence " + std::to_string(*trial.sequence);
      return {directory,
              record.facts.program,
              *costs,
              record,
              trial,
              title,
              make_report(directory, record),
              measured ? measured->device : "",
              measured && measured->emulated};
    }
  }
  throw UsageError("no trial in '" + path +
                   "' has recorded the costs of its step; memtune sweep --strategy none with another --out records "
                   "them, or sweep --budget if none does not fit. All steps of the model have to run the same ops");
}

std::vector<PlanMemoryBudgets> limits_of(const PlanFromRunOptions& from, int64_t most, int64_t least) {
  const PlanMemoryBudgets limit{0, from.host_budget_bytes, from.disk_budget_bytes};
  std::vector<PlanMemoryBudgets> limits;
  for (const int64_t budget : from.budgets) {
    limits.push_back(limit);
    limits.back().budget_bytes = budget;
  }
  return limits.empty() ? planner::budget_ladder(most, least, limit) : limits;
}

std::string name_of(const PlanMemoryBudgets& limits) { return "plan:" + format_bytes(limits.budget_bytes); }

// The plans together with the run's measurements.
report::Report plotted(const Source& source, const PlansByBudgetReport& answer) {
  report::Report report = source.report;
  report.frontiers = {{source.trial.batch, source.trial.sequence, {}}};
  for (const BestPlanForBudget& rung : answer.budget_ladder)
    if (rung.step) report.frontiers.front().plans.push_back(rung.predicted());
  std::ranges::sort(report.frontiers.front().plans, {}, &result::TrialPrediction::peak_bytes);
  return report;
}

// Replaces the costs of `source` by those of another batch; nullptr if the batch is the run's own.
std::unique_ptr<OtherBatchCostPrediction> other_batch(Source& source, const PlanFromRunOptions& from) {
  if (!from.batch) {
    if (source.trial.batch) source.title += ", batch " + std::to_string(*source.trial.batch);
    return {};
  }
  const auto limits = from.budgets.size() == 1 ? std::optional(limits_of(from, 0, 0).front()) : std::nullopt;
  const RecordedCostsByBatchSize recorded(source.directory, source.record, source.trial, source.costs);
  auto other = std::make_unique<OtherBatchCostPrediction>(recorded, *from.batch, limits);
  source.program = other->program();
  source.costs = other->costs().likely;
  source.title += ", " + other->title();
  return other;
}

// Replaces the costs of `source` by those of another number of ranks; nullptr if the number is the run's own.
std::unique_ptr<RecordedCostsAtOtherRankCount> other_ranks(Source& source, const PlanFromRunOptions& from) {
  if (!from.ranks) return {};
  auto other = std::make_unique<RecordedCostsAtOtherRankCount>(source.costs, *from.ranks, from.link_rates);
  source.costs = other->costs();
  source.title += ", " + other->title();
  return other;
}

// Replaces the costs of `source` by those of another machine; nullptr if the machine is the run's own.
std::unique_ptr<OtherMachineCostPrediction> other_machine(Source& source, const OtherBatchCostPrediction* batch,
                                                          const SourceTargetMachineNames& names) {
  if (names.machine.empty()) return {};
  if (source.costs.sharded())
    throw UsageError("--machine: the run had " + std::to_string(source.costs.sharding.ranks) +
                     " ranks, and profiles of machines have no rates of collectives");
  const auto costs =
      batch ? batch->costs() : planner::BatchExtrapolatedCostRange{source.costs, source.costs, source.costs};
  auto other = std::make_unique<OtherMachineCostPrediction>(
      names, source.program, costs, source.record.request.training, source.device, source.emulated);
  source.costs = other->costs();
  source.title += ", " + other->title();
  return other;
}

// The range of a plan's step time; null if no uncertainty is known.
using RangeOf = std::function<PredictedStepTimeRange(const plan::Plan&)>;

RangeOf range_of(const Source& source, const OtherBatchCostPrediction* batch,
                 const OtherMachineCostPrediction* machine) {
  if (machine) return [machine](const plan::Plan& plan) { return machine->range(plan); };
  if (!batch || batch->costs().least == batch->costs().most) return {};
  const auto model = [&](const plan::RecordedStepCosts& costs) {
    return std::make_shared<const planner::StepPredictor>(source.program, costs);
  };
  return [least = model(batch->costs().least), most = model(batch->costs().most)](const plan::Plan& plan) {
    return PredictedStepTimeRange{least->predict(plan).step_ms, most->predict(plan).step_ms};
  };
}

// Sums of the same times in another order differ in their last bits: the predicted time stays in its own range.
PredictedStepTimeRange around(double step_ms, const PredictedStepTimeRange& range) {
  return {std::min(range.from_ms, step_ms), std::max(range.to_ms, step_ms)};
}

PlansByBudgetReport work_out(const Source& source, const OtherBatchCostPrediction* batch,
                             const RecordedCostsAtOtherRankCount* ranks, const OtherMachineCostPrediction* other,
                             const PlanFromRunOptions& from, SweepListener& listener) {
  const RangeOf range = range_of(source, batch, other);
  listener.planning(0, 0);
  const PlanMemoryBudgets first = limits_of(from, 0, 0).front();
  const Planner planner(source.program, source.costs,
                        planner::tiers(first, /*disk=*/true, /*states=*/!ranks, source.costs));
  PlansByBudgetReport answer{source.title, source.trial.strategy, source.costs.step_ms, 0, {}, {}};
  if (std::string untested = untested_engines(source.record); !untested.empty())
    answer.notes.push_back(std::move(untested));
  if (first.host_budget_bytes > 0 && source.costs.disk_write_gb_per_s <= 0)
    answer.notes.push_back(
        "the disk's speed is not known, so plans do not use it: memtune sweep with --scratch measures it during steps, "
        "memtune doctor --probe --scratch for --machine");
  if (source.costs.expandable_segments)
    answer.notes.push_back("recorded with expandable_segments:True; plans need it, too, where they run");
  answer.least_bytes = planner.least_memory(first, "least").predicted.required_bytes;
  const int64_t most = planner.predict({}).required_bytes;
  const auto limits = limits_of(from, other ? std::min(most, other->memory_bytes()) : most, answer.least_bytes);
  const auto plans = planner.plan_budgets(limits, name_of, [&](size_t i) { listener.planning(i + 1, limits.size()); });
  for (size_t i = 0; i < limits.size(); ++i) {
    BestPlanForBudget& rung =
        answer.budget_ladder.emplace_back(BestPlanForBudget{limits[i].budget_bytes, plans[i], {}, {}});
    // The search for a budget may find less than the one for the least.
    if (rung.step) answer.least_bytes = std::min(answer.least_bytes, rung.step->predicted.required_bytes);
    if (rung.step && !from.budgets.empty()) rung.reasons = planner.reasons(*rung.step);
    if (rung.step && range) rung.range = around(rung.step->predicted.step_ms, range(rung.step->plan));
    const bool may_be_cut = source.costs.grain_bytes > 1 && !source.costs.expandable_segments;
    if (rung.step && may_be_cut && (!rung.step->safe || rung.step->predicted.short_bytes > 0))
      answer.notes.push_back(allocator_note(*rung.step));
  }
  if (batch) std::ranges::copy(batch->notes(), std::back_inserter(answer.notes));
  if (ranks) std::ranges::copy(ranks->notes(), std::back_inserter(answer.notes));
  if (other) {
    std::vector<int64_t> budgets;
    for (const PlanMemoryBudgets& one : limits) budgets.push_back(one.budget_bytes);
    const std::vector<std::string> notes = other->notes(budgets);
    answer.notes.insert(answer.notes.end(), notes.begin(), notes.end());
  }
  return answer;
}

}  // namespace

bool PlansByBudgetFromRunResult::any_fits() const {
  return std::ranges::any_of(answer.budget_ladder, [](const BestPlanForBudget& rung) { return rung.step.has_value(); });
}

PlansByBudgetFromRunResult predict_plans(const PlanFromRunOptions& from, SweepListener& listener) {
  Source source = read_source(from.run);
  auto batch = other_batch(source, from);
  auto ranks = other_ranks(source, from);
  auto other = other_machine(source, batch.get(), from.machine);
  PlansByBudgetReport answer = work_out(source, batch.get(), ranks.get(), other.get(), from, listener);
  std::optional<report::Report> plot;
  if (from.budgets.empty() && !other && !batch && !ranks) plot = plotted(source, answer);
  return {std::move(answer), std::move(source.program), std::move(batch),
          std::move(ranks),  std::move(other),          std::move(plot)};
}

std::string to_text(const PlansByBudgetFromRunResult& plans, report::TerminalCapabilities style) {
  const std::string text = report::to_text(plans.answer, plans.program, style.width);
  return plans.plotted ? text + "\n" + report::pareto_plot(*plans.plotted, style) : text;
}

json to_json(const PlansByBudgetFromRunResult& plans) {
  json whole = report::to_json(plans.answer);
  if (plans.machine) whole["machines"] = plans.machine->to_json();
  if (plans.batch) whole["batches"] = plans.batch->to_json();
  if (plans.ranks) whole["ranks"] = plans.ranks->to_json();
  return whole;
}

}  // namespace memtune::sweep
