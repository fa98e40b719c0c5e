// "memtune plan --from RUN": simulates plans for any budget, from one trial of a finished sweep.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/report/report.h"
#include "core/answer/report/text/plans_by_budget_report.h"
#include "core/answer/report/text/table.h"
#include "core/sweep/loop/sweep.h"
#include "core/sweep/predict/other_batch_cost_prediction.h"
#include "core/sweep/predict/other_machine_cost_prediction.h"
#include "core/sweep/predict/recorded_costs_at_other_rank_count.h"

namespace memtune::sweep {

struct PlanFromRunOptions {
  std::string run;
  std::vector<int64_t> budgets;                          // in bytes; empty: several up to the peak of `none`
  int64_t host_budget_bytes = 0, disk_budget_bytes = 0;  // 0: no limit
  std::optional<int64_t> batch;                          // to plan for; 0: the fastest that fits; none: the run's
  std::optional<int> ranks;  // to plan for, as RecordedCostsAtOtherRankCount takes it; none: the run's
  std::optional<PerRankHostLinkBandwidth> link_rates;  // with `ranks`; none: the run's
  SourceTargetMachineNames machine;                    // to plan for; empty: the run's
};

struct PlansByBudgetFromRunResult {
  report::PlansByBudgetReport answer;
  plan::ProgramFacts program;
  std::unique_ptr<OtherBatchCostPrediction> batch;       // nullptr: the run's
  std::unique_ptr<RecordedCostsAtOtherRankCount> ranks;  // nullptr: the run's
  std::unique_ptr<OtherMachineCostPrediction> machine;   // nullptr: the run's
  std::optional<report::Report> plotted;  // the run's measurements with all plans, if no budget was given

  bool any_fits() const;
};

// `listener` gets `planning`. Throws UsageError.
PlansByBudgetFromRunResult predict_plans(const PlanFromRunOptions& from, SweepListener& listener);

// A table: with reasons if budgets were given, otherwise with a plot.
std::string to_text(const PlansByBudgetFromRunResult& plans, report::TerminalCapabilities style);

nlohmann::json to_json(const PlansByBudgetFromRunResult& plans);

}  // namespace memtune::sweep
