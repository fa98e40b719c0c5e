// Keeps what a command's process recorded of the memory of a step: figures, call paths and the curve of its trace.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/measure/attach/records.h"
#include "core/record/measurement/trial_measurement.h"
#include "core/record/trace/trace_event.h"

namespace memtune::attach {

// Adds the curve and its owners, with times shifted by `shift_ns`. The trace must have none yet.
void add_memory(const TracedStepMemoryRecord& record, int64_t shift_ns, trace::Trace& to);

// Sets the figures in `to`, and writes the call paths to `target`. `folder` has the records. A note reports what cannot
// be read.
void fill_memory(const TracedStepMemoryRecord& record, const std::filesystem::path& folder,
                 const std::filesystem::path& target, FileSystem& files, result::TrialMeasurement& to,
                 std::vector<std::string>& notes);

}  // namespace memtune::attach
