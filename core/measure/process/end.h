// Classifies why a process ended without a result: crash, kill, out of host memory, full disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/record/measurement/trial_measurement.h"

namespace memtune::process {

struct ProcessFailure {
  result::TrialOutcome outcome =
      result::TrialOutcome::error;  // host_oom | disk_full | killed | timeout | crash | error | interrupted
  std::string reason;               // one line
};

// Number of processes that the kernel has killed for lack of memory since boot. None if /proc/vmstat does not say.
std::optional<int64_t> count_memory_kills();

// `status`: from waitpid(). `memory_kills`: kernel kills for lack of memory while the process ran; none if unknown.
// `where` (the phase) and `details` (the end of its log) become part of the reason.
ProcessFailure classify_end(int status, std::optional<int64_t> memory_kills, const std::string& where,
                            const std::string& details);

}  // namespace memtune::process
