// What memtune's own engines tell of the model that somebody's training command trains: trials in a folder of their
// own, one round each, since the command itself has the last word.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/planner.h"
#include "core/sweep/sweep.h"

namespace memtune::cli {

struct NativeStep {
  double step_ms = 0;
  int64_t peak_bytes = 0;
  bool measured = true;  // else on paper
};

// For a training loop of the model, as Python; or why there is none.
struct NativePlan {
  std::string strategy, text;  // "": none
  std::string why_none;
  std::vector<std::string> notes = {};  // what Python does otherwise
};

class NativeTrials {
 public:
  virtual ~NativeTrials() = default;

  // `none` and a strategy more, where one is named. False when a signal came. Throws as run_sweep.
  virtual bool run_first(const std::string& strategy) = 0;
  // A plan for the budget and what comes near it of the strategies; those that the model does not have are left out.
  // `budget_bytes` 0: none; all strategies are run. `host_budget_bytes` of plans, 0: none.
  virtual bool run(const std::vector<std::string>& strategies, int64_t budget_bytes, int64_t host_budget_bytes) = 0;

  // Measured, else on paper where that is known; nothing: it did not work, or nobody knows.
  virtual std::optional<NativeStep> step(const std::string& strategy) const = 0;
  virtual std::string failure() const = 0;  // of `none`, where no trial worked: "device_oom: ..."
  // Where the budget of the last run() is not kept by `none`; `has_keys` says of a strategy that no Python is needed.
  virtual NativePlan plan(const std::function<bool(const std::string&)>& has_keys) const = 0;
  virtual double tokens() const = 0;       // of a step; 0: not known
  virtual std::string device() const = 0;  // that they ran on; "": not known
};

// Of a plan in Python, which has no disk; host memory as the training's --host-budget has it, and no more than that.
planner::PlanLimits limits_of(const config::TrainingSettings& training, int64_t budget_bytes,
                              int64_t host_budget_bytes);

// By sweeps of the model, all in one folder.
class NativeSweeps : public NativeTrials {
 public:
  // `settings` say the model and how it is trained; their strategies and budget are not looked at. All outlive it.
  NativeSweeps(sweep::SweepSettings settings, sweep::SweepListener& listener);

  bool run_first(const std::string& strategy) override;
  bool run(const std::vector<std::string>& strategies, int64_t budget_bytes, int64_t host_budget_bytes) override;
  std::optional<NativeStep> step(const std::string& strategy) const override;
  std::string failure() const override;
  NativePlan plan(const std::function<bool(const std::string&)>& has_keys) const override;
  double tokens() const override;
  std::string device() const override { return result_.report.device; }

 private:
  bool sweep(const std::vector<std::string>& strategies, const sweep::MakeProposer& proposer);
  bool model_has(const std::string& strategy) const;
  void work_out();
  const result::Row* row(const std::string& strategy) const;
  const result::Row* planned_row() const;

  sweep::SweepSettings settings_;
  sweep::SweepListener& listener_;
  const std::chrono::milliseconds limit_;  // of all sweeps, and of what goes on between them; 0: none
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  sweep::SweepResult result_;
  std::map<std::string, NativeStep> paper_;
};

}  // namespace memtune::cli
