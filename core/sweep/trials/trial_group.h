// Runs the ranks of one trial, a process of memtune-trial each. If a rank fails, all end, and the answer is that of the
// rank that failed first on its own.
#pragma once

#include <memory>
#include <vector>

#include "core/sweep/trials/local_or_remote_rank_trial_process.h"

namespace memtune::sweep {

// `ranks` in order. Merges the measurements, training results or save figures of the ranks (result::merge_ranks). If
// the ranks could not finish, returns the failure and names the rank.
TrialAnswer run_trial_group(const std::vector<std::unique_ptr<LocalOrRemoteRankTrialProcess>>& ranks);

}  // namespace memtune::sweep
