// Finds the commands that measured the trials of a folder. Several commands may sweep into one folder, and trials may
// be taken over from other folders.
#pragma once

#include "core/answer/report/report.h"
#include "core/answer/run/run_directory.h"

namespace memtune::sweep {

// Each command that measured trials and is not the report's gets a note. The commands are those of the trials'
// requests. A report without a command gets the one that measured most. Requests store no date, so none is shown then.
void add_command_notes(const RunDirectory& directory, report::Report& report);

}  // namespace memtune::sweep
