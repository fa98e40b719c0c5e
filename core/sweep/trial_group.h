// Several processes of memtune-trial that train together, the ranks of one trial: where one fails all end, and the
// answer is the rank's that failed first of itself.
#pragma once

#include <memory>
#include <vector>

#include "core/sweep/rank_trial.h"

namespace memtune::sweep {

// `ranks` in their order. All measurements, results of training, or figures of saves as one (result::of_all_ranks), or
// what became of the rank that the others could not go on without, named.
TrialAnswer run_trial_group(const std::vector<std::unique_ptr<RankTrial>>& ranks);

}  // namespace memtune::sweep
