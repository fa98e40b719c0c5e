// The commands that measured the trials of a folder: whoever sweeps into it again may find some of another's there.
#pragma once

#include "core/report/report.h"
#include "core/sweep/run_directory.h"

namespace memtune::sweep {

// The report's command is that of its trials, as their requests have it. Where they are of several, a note tells of
// each other one; a command that measured none of them gives way to the one that measured most, without its date, which
// requests do not have.
void tell_commands(const RunDirectory& directory, report::Report& report);

}  // namespace memtune::sweep
