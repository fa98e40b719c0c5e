// Main loop of a sweep: asks the subject for trials, runs them and asks again with their results, until nothing new is
// proposed.
#pragma once

#include <vector>

#include "core/sweep/directory/locked_run_directory.h"
#include "core/sweep/loop/round_robin_trial_runner.h"
#include "core/sweep/loop/sweep.h"
#include "core/sweep/loop/sweep_trial_proposer_and_runner.h"

namespace memtune::sweep {

class SweepLoop {
 public:
  // All arguments outlive it. The subject writes to `record` too.
  SweepLoop(const CommonSweepSettings& settings, SweepListener& listener, LockedRunDirectory& open,
            SweepTrialProposerAndRunner& subject, SweepJsonSettingsFactsAndTrials& record);

  // Returns false if a signal arrived; the record then holds what was finished. Throws like run_sweep.
  bool run();

  SweepTrialJournal& journal() { return turns_.journal(); }

 private:
  bool run_proposals();
  void add(std::vector<SweepTrialAndMeasurement> proposed);
  void report_plan(size_t begin);
  void report_provenance();
  SweepJsonSettingsFactsAndTrials earlier_record() const;

  const CommonSweepSettings& settings_;
  SweepListener& listener_;
  const RunDirectory& directory_;
  SweepTrialProposerAndRunner& subject_;
  SweepJsonSettingsFactsAndTrials& record_;
  SweepJsonSettingsFactsAndTrials earlier_;
  RoundRobinTrialRunner turns_;
};

// The file system through which the run directory is accessed.
FileSystem& files_of(const CommonSweepSettings& settings);

}  // namespace memtune::sweep
