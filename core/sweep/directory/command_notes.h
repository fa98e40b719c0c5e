// Finds the commands that measured the trials of a folder. Several commands may sweep into one folder.
#pragma once

#include "core/answer/report/report.h"
#include "core/sweep/directory/run_directory.h"

namespace memtune::sweep {

// Sets the report's command to the one that measured its trials, from their requests. Each other command gets a note.
// If the report's command measured none of them, it is replaced by the one that measured most. Requests store no date,
// so none is shown then.
void add_command_notes(const RunDirectory& directory, report::Report& report);

}  // namespace memtune::sweep
