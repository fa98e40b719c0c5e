// The processes behind the trials: under the plan that is recommended, one for each way of saving that was asked for.
// Their states are written into saving/ of the run directory, which has to have room for two, and taken away
// afterwards. What was measured goes into sweep.json beside the trial; the journal has a line before and one behind
// each process.
#pragma once

#include <filesystem>
#include <string>

#include "core/sweep/journal.h"
#include "core/sweep/open_directory.h"
#include "core/sweep/sweep.h"

namespace memtune::sweep {

class SaveTrials {
 public:
  // All outlive it.
  SaveTrials(const SweepSettings& settings, SweepListener& listener, OpenDirectory& open, Journal& journal,
             SweepRecord& record)
      : settings_(settings),
        listener_(listener),
        open_(open),
        directory_(open.directory()),
        journal_(journal),
        record_(record) {}

  // Those of the trial, one of the record's, that are not here yet; false when a signal came. A process that fails is
  // told with its reason.
  bool run(TrialSpec& trial, const config::TrialRequest& request);

 private:
  bool can_reuse(const TrialSpec& spec, const std::string& mode);
  bool run_mode(TrialSpec& spec, const config::TrialRequest& request, const std::string& mode);
  result::SaveMeasurement measure(const TrialSpec& spec, const config::TrialRequest& trial, const std::string& mode);
  void remove_states();  // IoError

  const SweepSettings& settings_;
  SweepListener& listener_;
  OpenDirectory& open_;
  const RunDirectory& directory_;
  Journal& journal_;
  SweepRecord& record_;
};

}  // namespace memtune::sweep
