// Merges what the ranks of a command recorded into one trace: kernels and copies, steps, their passes and parts of the
// model. Each rank has its own tracks, and all are on one clock.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/measure/attach/process_records_by_rank.h"

namespace memtune::attach {

// Writes the trace to `target` if steps were traced, and sets its name and the slowest rank's copies and memory in
// `to`. `folder` has the records. A note reports what cannot be read.
void fill_traced(const ProcessRecordsByRank& team, const std::filesystem::path& folder,
                 const std::filesystem::path& target, FileSystem& files, result::TrialMeasurement& to,
                 std::vector<std::string>& notes);

}  // namespace memtune::attach
