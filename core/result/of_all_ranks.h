// What the processes of one training measured, as one measurement.
#pragma once

#include <span>

#include "core/result/measurement.h"
#include "core/result/save_measurement.h"
#include "core/result/training.h"

namespace memtune::result {

// By rank, at least one. The slowest rank's step, the highest of each peak, all of their samples, the mean of their
// losses; each rank's own in Measurement::ranks. Gradients are equal where all ranks' are. What is not ok on one is not
// ok, and the reason says on which.
Measurement of_all_ranks(std::span<const Measurement> ranks);

// The slowest rank's of every time, the highest host memory, the bytes of all. A save that failed on one has failed;
// the losses are all ranks' already.
TrainingResult of_all_ranks(std::span<const TrainingResult> ranks);
// Likewise.
SaveMeasurement of_all_ranks(std::span<const SaveMeasurement> ranks);

}  // namespace memtune::result
