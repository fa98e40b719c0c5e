// Trials that take turns: A B C, A B C, ... Of a trial the first round checks what it computes and records the trace,
// later ones only measure, each beside the baseline's step of the same round. What an earlier sweep in the directory
// measured stands. Everything is on disk as it comes: the journal has a line before and one behind each turn.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/sweep/baselines.h"
#include "core/sweep/journal.h"
#include "core/sweep/machine_load.h"
#include "core/sweep/open_directory.h"
#include "core/sweep/sweep.h"
#include "core/sweep/sweep_subject.h"
#include "core/sweep/time_budget.h"

namespace memtune::sweep {

class RoundRobin {
 public:
  // All outlive it. `record` has each trial as it is, and is written when one gets its folder. The directory is kept
  // once a trial has run.
  RoundRobin(const LoopSettings& settings, SweepListener& listener, OpenDirectory& open, SweepSubject& subject,
             SweepRecord& record);

  // With what is here of it already. One of the same key is not added twice. `earlier`: what was predicted when it was
  // measured, where it was.
  void add(TrialState trial, const std::optional<result::Predicted>& earlier);
  const std::vector<TrialState>& trials() const { return trials_; }
  size_t missing_rounds(const TrialState& trial);

  // The first round of the trials from `begin` on, and later those that are missing of all, as far as there is time;
  // false when a signal came. UsageError when the first trial of all is refused: so would be the others.
  bool run_first_round(size_t begin) { return run_round_of_all(begin, 0); }
  bool run_later_rounds();

  // Read when it is first asked for.
  Journal& journal();

 private:
  enum class Turn { taken, no_time, interrupted };

  bool can_reuse(const JournalEntry& known, const TrialState& trial);
  const TrialState* base_of(const TrialState& trial) const;
  bool has_round(const TrialState& trial, size_t round);
  bool run_round_of_all(size_t begin, size_t round);
  Turn run_round(size_t trial, size_t round);
  Turn measure_base(const TrialState& trial, size_t round);
  Turn run_trial(size_t trial, size_t round);
  MeasuredRound measure(const TrialState& trial, bool first);
  bool ran_out_of_time(const result::Measurement& measurement) const;
  bool has_time_for(const TrialState& trial) const;
  void leave_out(TrialState& trial, size_t round);
  void add_round(const result::Measurement& measurement, result::Round beside, size_t round, TrialState& trial);
  void keep_what_else(const MeasuredRound& measured, size_t trial);
  void make_folder(size_t trial);
  size_t rounds() const;

  const LoopSettings& settings_;
  SweepListener& listener_;
  OpenDirectory& open_;
  const RunDirectory& directory_;
  SweepSubject& subject_;
  SweepRecord& record_;
  std::unique_ptr<Journal> journal_;
  std::vector<TrialState> trials_;
  Baselines baselines_;
  double load_ = load_average();  // before the first trial
  TimeBudget time_;
  std::map<std::string, std::chrono::milliseconds> took_;  // by key, the latest round
};

}  // namespace memtune::sweep
