// Finds whether a command's memory grows from step to step, and whether its longest batch explains its peak.
#pragma once

#include <string>
#include <vector>

#include "core/measure/attach/records.h"
#include "core/record/measurement/memory_growth.h"

namespace memtune::attach {

result::MemoryGrowth growth_of(const TrainingProcessRecords& records);

// Each "" if there is nothing to report.
std::string growth_text(const result::MemoryGrowth& growth, int64_t device_bytes, int64_t peak_bytes);
std::string longest_batch_text(const TrainingProcessRecords& records);
std::string fragmentation_text(const TrainingProcessRecords& records);

// Times in the measured steps that PyTorch's allocator gave free segments back because a new one did not fit.
int64_t allocator_retries(const TrainingProcessRecords& records);

}  // namespace memtune::attach
