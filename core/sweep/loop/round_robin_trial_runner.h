// Runs trials in turn: A B C, A B C, ... The first round of a trial checks its results and records the trace; later
// rounds only measure. Each step time is compared with the baseline's of the same round. Measurements of earlier runs
// in the directory are reused. The journal has a line before and after each turn, so that a killed sweep loses one turn
// at most.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/sweep/directory/locked_run_directory.h"
#include "core/sweep/directory/sweep_trial_journal.h"
#include "core/sweep/loop/baseline_step_times_by_setting_and_round.h"
#include "core/sweep/loop/machine_load.h"
#include "core/sweep/loop/sweep.h"
#include "core/sweep/loop/sweep_trial_proposer_and_runner.h"
#include "core/sweep/loop/sweep_wall_clock_budget.h"

namespace memtune::sweep {

class RoundRobinTrialRunner {
 public:
  // All arguments outlive it. Trials are appended to `record`, which is written when a trial gets its folder. The
  // directory is kept once a trial has run.
  RoundRobinTrialRunner(const CommonSweepSettings& settings, SweepListener& listener, LockedRunDirectory& open,
                        SweepTrialProposerAndRunner& subject, SweepJsonSettingsFactsAndTrials& record);

  // Adds a trial, with its earlier measurement if that can be reused. A trial with a known key is ignored. `earlier`:
  // the prediction made before that measurement, if any.
  void add(SweepTrialAndMeasurement trial, const std::optional<result::TrialPrediction>& earlier);
  const std::vector<SweepTrialAndMeasurement>& trials() const { return trials_; }
  size_t missing_rounds(const SweepTrialAndMeasurement& trial);

  // Run the first round of the trials from `begin` on, and all missing later rounds, as long as there is time. Return
  // false if a signal arrived. Throw UsageError if the very first trial is rejected, because the others would be too.
  bool run_first_round(size_t begin) { return run_round_of_all(begin, 0); }
  bool run_later_rounds();

  // Opened at the first call.
  SweepTrialJournal& journal();

 private:
  enum class Turn { taken, no_time, interrupted };

  void adopt(SweepTrialAndMeasurement& trial);
  bool can_reuse(const JournaledTrialState& known, const SweepTrialAndMeasurement& trial);
  const SweepTrialAndMeasurement* base_of(const SweepTrialAndMeasurement& trial) const;
  bool has_round(const SweepTrialAndMeasurement& trial, size_t round);
  bool run_round_of_all(size_t begin, size_t round);
  Turn run_round(size_t trial, size_t round);
  Turn measure_base(const SweepTrialAndMeasurement& trial, size_t round);
  Turn run_trial(size_t trial, size_t round);
  TrialMeasurementSavesAndNotes measure(const SweepTrialAndMeasurement& trial, bool first);
  bool ran_out_of_time(const result::TrialMeasurement& measurement) const;
  bool has_time_for(const SweepTrialAndMeasurement& trial) const;
  void leave_out(SweepTrialAndMeasurement& trial, size_t round);
  void add_round(const result::TrialMeasurement& measurement, result::TrialRoundTimesAndMachineLoad beside,
                 size_t round, SweepTrialAndMeasurement& trial);
  // Throws UsageError if earlier trials, which are reused, are of another minor release of PyTorch.
  void refuse_other_torch(const std::string& torch) const;
  void keep_what_else(const TrialMeasurementSavesAndNotes& measured, size_t trial);
  void make_folder(size_t trial);
  size_t rounds() const;

  const CommonSweepSettings& settings_;
  SweepListener& listener_;
  LockedRunDirectory& open_;
  const RunDirectory& directory_;
  SweepTrialProposerAndRunner& subject_;
  SweepJsonSettingsFactsAndTrials& record_;
  std::unique_ptr<SweepTrialJournal> journal_;
  std::vector<SweepTrialAndMeasurement> trials_;
  BaselineStepTimesBySettingAndRound baselines_;
  double load_ = load_average();  // at construction, before the first trial
  SweepWallClockBudget time_;
  std::map<std::string, std::chrono::milliseconds> took_;  // by key: duration of the latest round
};

}  // namespace memtune::sweep
