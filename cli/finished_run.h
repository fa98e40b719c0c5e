// A run directory as the commands that come after a sweep see it.
#pragma once

#include <string>

#include "core/sweep/run_directory.h"

namespace memtune::cli {

struct FinishedRun {
  sweep::RunDirectory directory;
  report::Report report;
};

// Throws UsageError when there is no sweep in `path`.
FinishedRun open_run(const std::string& path);

// What the recommended trial's trace says, into the report. A trial without a trace, or one whose trace cannot be read,
// says nothing.
void add_findings(const sweep::RunDirectory& directory, report::Report& report);

// The trial of that strategy (the recommended or the first that worked, where several batch sizes were tried); "": the
// recommended one. Throws UsageError with the names that there are.
const result::Row& find_row(const report::Report& report, const std::string& strategy);

}  // namespace memtune::cli
