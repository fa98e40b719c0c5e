// Opens the directory of a finished sweep for the commands that follow it.
#pragma once

#include <string>

#include "core/answer/run/run_directory.h"

namespace memtune::sweep {

struct RunDirectoryWithReport {
  RunDirectory directory;
  report::Report report;
};

// Throws UsageError if `path` has no sweep.
RunDirectoryWithReport open_run(const std::string& path);

// Adds the findings from the recommended trial's trace to the report. A missing or unreadable trace adds nothing.
void add_findings(const RunDirectory& directory, report::Report& report);

// Whether there are trials and each had this outcome.
bool all_ended_in(const report::Report& report, result::TrialOutcome outcome);

// The trial of that strategy; "": the recommended one. If it was tried at several batches, the recommended one, else
// the first that worked. Throws UsageError with the known names.
const result::TrialResultRow& find_row(const report::Report& report, const std::string& strategy);

}  // namespace memtune::sweep
