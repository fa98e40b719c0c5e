// Finds the largest batch with which each strategy fits the budget, by bisection over the batches of the settings. Each
// step is a trial. It assumes that a larger batch needs at least as much memory.
#pragma once

#include "core/sweep/proposals/trial_proposer.h"

namespace memtune::sweep {

// `budget_bytes` of peak allocated memory; 0: the device, or the memory cap, is the limit.
TrialProposerFactory propose_largest_batches(int64_t budget_bytes);

// All divisors of `samples`, ascending: the batches that can make up a step of so many samples.
std::vector<int64_t> divisors(int64_t samples);

}  // namespace memtune::sweep
