// Trials that take turns: A B C, A B C, ... Of a trial the first round checks gradients and records the trace, later
// ones only measure, each beside the baseline's step of the same round. What an earlier sweep in the directory
// measured stands. Everything is on disk as it comes: the journal has a line before and one behind each turn.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/sweep/baselines.h"
#include "core/sweep/journal.h"
#include "core/sweep/machine_load.h"
#include "core/sweep/open_directory.h"
#include "core/sweep/sweep.h"

namespace memtune::sweep {

// A trial of a sweep, and what is known of it so far.
struct TrialState {
  size_t setting = 0;  // index into the points
  TrialSpec spec;
  config::TrialRequest request;
  bool reused = false;  // its first round is here
  result::Measurement measurement;

  std::string key(size_t round) const { return spec.key + (round == 0 ? "" : "-" + std::to_string(round + 1)); }
};

// What has ended so need not run again.
bool stands(result::Outcome outcome, Reuse reuse);

class RoundRobin {
 public:
  // All outlive it. `record` has each trial as it is, and is written when one gets its folder. The directory is kept
  // once a trial has run.
  RoundRobin(const SweepSettings& settings, SweepListener& listener, OpenDirectory& open,
             const std::vector<Setting>& points, SweepRecord& record);

  // With what is here of it already. One of the same key is not added twice.
  void add(TrialState trial);
  const std::vector<TrialState>& trials() const { return trials_; }
  size_t missing_rounds(const TrialState& trial);

  // All rounds of the trials from `begin` on; false when a signal came. UsageError when the first trial of all is
  // refused: so would be the others.
  bool run(size_t begin);

  // Read when it is first asked for.
  Journal& journal();

 private:
  bool is_whole(const std::string& reference);
  bool can_reuse(const JournalEntry& known, const TrialState& trial);
  const TrialState* base_of(const TrialState& trial) const;
  bool has_round(const TrialState& trial, size_t round);
  bool run_round(size_t trial, size_t round);
  bool measure_base(const TrialState& trial, size_t round);
  bool run_trial(TrialState& trial, size_t round);
  result::Measurement measure(const TrialState& trial, bool first);
  void add_round(const result::Measurement& measurement, result::Round beside, size_t round, TrialState& trial);
  void prepare(TrialState& trial);
  result::Measurement complete(const TrialAnswer& answer, const TrialState& trial) const;
  std::string absolute(const std::filesystem::path& relative) const;
  size_t rounds() const;

  const SweepSettings& settings_;
  SweepListener& listener_;
  OpenDirectory& open_;
  const RunDirectory& directory_;
  const std::vector<Setting>& points_;
  SweepRecord& record_;
  std::unique_ptr<Journal> journal_;
  std::vector<TrialState> trials_;
  Baselines baselines_;
  double load_ = load_average();  // before the first trial
  std::set<std::string> whole_references_;
  bool any_worked_ = false;
};

}  // namespace memtune::sweep
