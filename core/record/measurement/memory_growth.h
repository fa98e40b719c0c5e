// How the memory of a training command changed from step to step. Plain data; the JSON of a Measurement has it as
// `growth`.
#pragma once

#include <cstdint>
#include <string>

#include "core/record/measurement/out_of_memory_breakdown.h"

namespace memtune::result {

// By least squares over what was allocated at the end of each measured step.
struct MemoryGrowth {
  int64_t steps = 0;                             // compared; 0: too few
  double bytes_per_step = 0, low = 0, high = 0;  // low, high: 95 % interval
  double bytes_per_position = 0;                 // of the step's batch, or per row; 0: batches are alike
  bool grows = false;                            // by more than noise, and not because batches did
  std::string owner;                             // that grew most: "rest", "gradients", ...; "": not known
  AllocatingSourceLine line;                     // of the source that grew most, by its bytes; line 0: not known
};

}  // namespace memtune::result
