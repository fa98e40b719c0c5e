// Merges the results of the ranks of one training.
#pragma once

#include <span>

#include "core/record/measurement/state_save_mode_measurement.h"
#include "core/record/measurement/training.h"
#include "core/record/measurement/trial_measurement.h"

namespace memtune::result {

// `ranks` is indexed by rank and not empty. Takes the slowest rank's step time, the maximum of each peak, the sum of
// samples and the mean of losses; values per rank are in Measurement::ranks. Gradients are equal if they are on all
// ranks. If a rank is not ok, the result is not ok, and the reason names the rank.
TrialMeasurement merge_ranks(std::span<const TrialMeasurement> ranks);

// Takes the slowest rank's times, the maximum of host memory and the sum of bytes. A save that failed on one rank has
// failed. Losses are equal on all ranks already.
ResumableTrainingResult merge_ranks(std::span<const ResumableTrainingResult> ranks);
// Merges save measurements in the same way.
StateSaveModeMeasurement merge_ranks(std::span<const StateSaveModeMeasurement> ranks);

}  // namespace memtune::result
