// Says what takes an unusual share of a training command's step, and the setting that changes it.
#pragma once

#include <string>
#include <vector>

#include "core/record/measurement/training_phase_time_shares.h"

namespace memtune::result {

// In the order of the rules; empty if no share is remarkable.
std::vector<std::string> time_advice(const TrainingPhaseTimeShares& shares);

}  // namespace memtune::result
