// memtune doctor -- COMMAND: runs the first steps of a training command to find out what memtune can measure of it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

// Runs at most four steps in a temporary folder. Throws UsageError if the program does not exist.
std::vector<DoctorCheckResult> check_command(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace memtune::sweep
