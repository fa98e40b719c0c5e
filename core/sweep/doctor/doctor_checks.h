// memtune doctor: checks of this machine and of memtune's programs.
#pragma once

#include <string>
#include <vector>

#include "core/sweep/trials/trial_process.h"

namespace memtune::sweep {

// A check fails if memtune-trial is missing or does not answer. The others come from it and are for `device`.
std::vector<DoctorCheckResult> check_machine(const std::string& device);

// Measures the disk of the folder without other load, one direction at a time.
DoctorCheckResult check_scratch(const std::string& directory);

}  // namespace memtune::sweep
