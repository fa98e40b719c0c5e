// The processes behind the trials: under the plan that is recommended, one for each way of saving that was asked for.
// Their states are written into saving/ of the run directory, which has to have room for two, and taken away
// afterwards. What was measured goes into sweep.json beside the trial; the journal has a line before and one behind
// each process.
#pragma once

#include <filesystem>
#include <string>

#include "core/sweep/round_robin.h"

namespace memtune::sweep {

class SaveTrials {
 public:
  // All outlive it.
  SaveTrials(const SweepSettings& settings, SweepListener& listener, OpenDirectory& open, RoundRobin& turns,
             SweepRecord& record)
      : settings_(settings),
        listener_(listener),
        open_(open),
        directory_(open.directory()),
        turns_(turns),
        record_(record) {}

  // Those of the trial that are not here yet; false when a signal came. A process that fails is told with its reason.
  bool run(const TrialState& trial);

 private:
  bool can_reuse(const TrialSpec& spec, const std::string& mode);
  bool run_mode(const TrialState& trial, TrialSpec& spec, const std::string& mode);
  result::SaveMeasurement measure(const TrialState& trial, const std::string& mode);
  void remove_states();  // IoError

  const SweepSettings& settings_;
  SweepListener& listener_;
  OpenDirectory& open_;
  const RunDirectory& directory_;
  RoundRobin& turns_;
  SweepRecord& record_;
};

}  // namespace memtune::sweep
