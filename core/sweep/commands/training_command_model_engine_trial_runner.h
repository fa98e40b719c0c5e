// Trials with memtune's own engines of the model that a user's training command trains. They are in a folder of their
// own and take one round each, because the command itself is measured afterwards.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/planner/planner.h"
#include "core/sweep/loop/sweep.h"

namespace memtune::sweep {

struct EngineMeasuredOrSimulatedStepTimeAndPeak {
  double step_ms = 0;
  int64_t peak_bytes = 0;
  bool measured = true;  // otherwise simulated
};

// A plan as Python for the user's training loop, or why there is no plan.
struct PythonPlanOrFailureReason {
  std::string strategy, text;  // "": no plan
  std::string why_none;
  std::vector<std::string> notes = {};  // where Python deviates from the plan
  int64_t peak_bytes = 0;               // measured by memtune's own trial
};

class TrainingCommandModelEngineTrialRunner {
 public:
  virtual ~TrainingCommandModelEngineTrialRunner() = default;

  // Runs `none`, and `strategy` unless it is "". False after a signal. Throws like run_sweep.
  virtual bool run_first(const std::string& strategy) = 0;
  // Runs a plan for the budget and the strategies that come near it; without a budget (0) all strategies. Skips
  // strategies that the model does not support. `host_budget_bytes` limits plans; 0: no limit.
  virtual bool run(const std::vector<std::string>& strategies, int64_t budget_bytes, int64_t host_budget_bytes) = 0;

  // Measured, otherwise simulated. None if the trial failed or the step is unknown.
  virtual std::optional<EngineMeasuredOrSimulatedStepTimeAndPeak> step(const std::string& strategy) const = 0;
  virtual std::string failure() const = 0;  // of `none`, if no trial worked: "device_oom: ..."
  // The plan, if `none` exceeds the budget of the last run(). `has_keys` says that the trainer has keys for a strategy.
  virtual PythonPlanOrFailureReason plan(const std::function<bool(const std::string&)>& has_keys) const = 0;
  virtual double tokens() const = 0;       // per step; 0: unknown
  virtual std::string device() const = 0;  // where they ran; "": unknown
};

// Limits for a plan in Python, which has no disk. Host memory is the smaller of --host-budget and `host_budget_bytes`;
// 0 is no limit.
planner::PlanMemoryBudgets limits_of(const plan::TrainingSettings& training, int64_t budget_bytes,
                                     int64_t host_budget_bytes);

// Runs sweeps of the model, all in one folder.
class TrainingCommandModelEngineSweepRunner : public TrainingCommandModelEngineTrialRunner {
 public:
  // `settings` define the model and its training; their strategies and budget are ignored. Both must outlive this
  // object.
  TrainingCommandModelEngineSweepRunner(EngineSweepSettings settings, SweepListener& listener);

  bool run_first(const std::string& strategy) override;
  bool run(const std::vector<std::string>& strategies, int64_t budget_bytes, int64_t host_budget_bytes) override;
  std::optional<EngineMeasuredOrSimulatedStepTimeAndPeak> step(const std::string& strategy) const override;
  std::string failure() const override;
  PythonPlanOrFailureReason plan(const std::function<bool(const std::string&)>& has_keys) const override;
  double tokens() const override;
  std::string device() const override { return result_.report.device; }

 private:
  bool sweep(const std::vector<std::string>& strategies, const TrialProposerFactory& proposer);
  bool model_has(const std::string& strategy) const;
  void work_out();
  const result::TrialResultRow* row(const std::string& strategy) const;
  const result::TrialResultRow* planned_row() const;

  EngineSweepSettings settings_;
  SweepListener& listener_;
  const std::chrono::milliseconds limit_;  // of all sweeps and the time between them; 0: none
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  SweepRecordAndReport result_;
  std::map<std::string, EngineMeasuredOrSimulatedStepTimeAndPeak> predictor_;
};

}  // namespace memtune::sweep
