// Measures saves after the trials: one process for each requested save mode, under the recommended plan. The states are
// written into saving/ of the run directory, which needs room for two, and removed afterwards. Results are stored with
// the trial in sweep.json. The journal has a line before and after each process.
#pragma once

#include <filesystem>
#include <string>

#include "core/sweep/directory/locked_run_directory.h"
#include "core/sweep/directory/sweep_trial_journal.h"
#include "core/sweep/loop/sweep.h"

namespace memtune::sweep {

class StateSaveModeTrialRunner {
 public:
  // All arguments outlive it.
  StateSaveModeTrialRunner(const EngineSweepSettings& settings, SweepListener& listener, LockedRunDirectory& open,
                           SweepTrialJournal& journal, SweepJsonSettingsFactsAndTrials& record)
      : settings_(settings),
        listener_(listener),
        open_(open),
        directory_(open.directory()),
        journal_(journal),
        record_(record) {}

  // Measures the modes that `trial`, an element of the record, does not have yet. Returns false if a signal arrived. A
  // process that fails is recorded with its reason.
  bool run(SweepTrialEntry& trial, const plan::TrialRequest& request);

 private:
  bool can_reuse(const SweepTrialEntry& spec, const std::string& mode);
  bool run_mode(SweepTrialEntry& spec, const plan::TrialRequest& request, const std::string& mode);
  result::StateSaveModeMeasurement measure(const SweepTrialEntry& spec, const plan::TrialRequest& trial,
                                           const std::string& mode);
  void remove_states();  // throws IoError

  const EngineSweepSettings& settings_;
  SweepListener& listener_;
  LockedRunDirectory& open_;
  const RunDirectory& directory_;
  SweepTrialJournal& journal_;
  SweepJsonSettingsFactsAndTrials& record_;
};

}  // namespace memtune::sweep
