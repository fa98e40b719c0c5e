// memtune doctor -- COMMAND: what of a training command can be measured, found out by its first steps.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/sweep/trial_process.h"

namespace memtune::cli {

// Starts it for four steps at most, in a folder that is gone afterwards. UsageError when there is no such program.
std::vector<sweep::DoctorCheck> check_command(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace memtune::cli
