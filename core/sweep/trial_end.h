// Why a trial process ended that gave no answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/sweep/trial_process.h"

namespace memtune::sweep {

// "in phase measure, step 2 of 5"
std::string describe(const Phase& phase);

// How many processes the kernel has killed for lack of memory; nothing where it does not say.
std::optional<int64_t> count_memory_kills();

// `status` as waitpid() gives it; `memory_kills`: while it ran, if that is known. `details` end the reason.
Failure classify_end(int status, std::optional<int64_t> memory_kills, const std::string& where,
                     const std::string& details);

}  // namespace memtune::sweep
