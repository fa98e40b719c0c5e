// "memtune plan --from RUN --machine NAME|FILE": predicts the step that one machine measured for another machine.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/report/text/plans_by_budget_report.h"
#include "core/plan/facts/machine_profile.h"
#include "core/plan/planner/batch_extrapolated_cost_range.h"
#include "core/plan/planner/cost_range_converted_to_other_machine.h"
#include "core/plan/planner/planner.h"
#include "core/plan/request/trial_request.h"

namespace memtune::sweep {

struct SourceTargetMachineNames {
  std::string machine, from;  // NAME or FILE; "": none, or the run's own
};

class OtherMachineCostPrediction {
 public:
  // `costs` were recorded on `device`, or extrapolated to a range. `emulated`: the CPU emulated the device. Throws
  // UsageError for an unknown profile, or one that lacks a rate.
  OtherMachineCostPrediction(const SourceTargetMachineNames& names, const plan::ProgramFacts& program,
                             const planner::BatchExtrapolatedCostRange& costs, const plan::TrainingSettings& training,
                             const std::string& device, bool emulated);
  OtherMachineCostPrediction(const OtherMachineCostPrediction&) = delete;
  OtherMachineCostPrediction& operator=(const OtherMachineCostPrediction&) = delete;

  const plan::RecordedStepCosts& costs() const { return costs_.likely; }
  int64_t memory_bytes() const { return to_.memory_bytes; }

  // The range of the step time under a plan, as far as the rates of both machines define it.
  report::PredictedStepTimeRange range(const plan::Plan& plan) const;

  std::string title() const;  // the measured machine and the planned one
  std::vector<std::string> notes(const std::vector<int64_t>& budgets) const;  // for the user
  nlohmann::json to_json() const;

 private:
  planner::CostRangeConvertedToOtherMachine scaled_costs(const plan::ProgramFacts& program,
                                                         const plan::RecordedStepCosts& costs,
                                                         const plan::TrainingSettings& training) const;

  plan::MachineProfile to_, from_;
  bool by_name_;  // the device's name identified the source machine
  std::string device_;
  planner::CostRangeConvertedToOtherMachine costs_;
  plan::RecordedStepCosts least_costs_, most_costs_;
  planner::StepPredictor least_, most_;
};

}  // namespace memtune::sweep
