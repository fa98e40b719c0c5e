// A run of training in a process of its own, as trials are: memtune run.
#pragma once

#include <cstdint>
#include <optional>

#include "core/sweep/sweep.h"

namespace memtune::sweep {

struct RunSettings {
  SweepSettings sweep;          // with one strategy or plan; of its training `steps` is the number of the last one
  int64_t save_every = 0;       // steps; 0: no saves
  std::string save = "sync";    // how, of config::kSaveModes
  int64_t keep_last = 0;        // saved states; 0: all
  bool resume = false;          // from the newest saved state, where there is one
  std::optional<int64_t> from;  // from that of this step
};

// TrainingResult, or why there is none. After a signal the process saves and answers. Throws as run_sweep. The listener
// is told the phases; that of a save, "saved", with a note.
TrialAnswer train(const RunSettings& settings, SweepListener& listener);

}  // namespace memtune::sweep
