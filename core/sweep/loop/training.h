// Trains in a process of its own, like a trial: memtune run.
#pragma once

#include <cstdint>
#include <optional>

#include "core/sweep/loop/sweep.h"

namespace memtune::sweep {

struct ResumableTrainingSettings {
  EngineSweepSettings sweep;    // one strategy or plan; training.steps is the number of the last step
  int64_t save_every = 0;       // steps; 0: no saves
  std::string save = "sync";    // one of kSaveModes
  int64_t keep_last = 0;        // saved states; 0: all
  bool resume = false;          // from the newest saved state, if there is one
  std::optional<int64_t> from;  // from the saved state of this step
};

// Returns a ResumableTrainingResult, or why there is none. After a signal the process saves and answers. Throws like
// run_sweep. The listener gets the phases; a save is phase "saved" with a note.
TrialAnswer train(const ResumableTrainingSettings& settings, SweepListener& listener);

}  // namespace memtune::sweep
