// Why a process ended that gave no answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/result/measurement.h"

namespace memtune::process {

struct Failure {
  result::Outcome outcome =
      result::Outcome::error;  // host_oom | disk_full | killed | timeout | crash | error | interrupted
  std::string reason;          // one line
};

// How many processes the kernel has killed for lack of memory; nothing where it does not say.
std::optional<int64_t> count_memory_kills();

// `status` as waitpid() gives it; `memory_kills`: while it ran, if that is known. `details` end the reason.
Failure classify_end(int status, std::optional<int64_t> memory_kills, const std::string& where,
                     const std::string& details);

}  // namespace memtune::process
