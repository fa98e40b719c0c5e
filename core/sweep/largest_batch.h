// Finds the largest batch that each strategy keeps the budget with: of the batches among the settings, by bisection,
// each step of it a trial of its own. That a larger batch needs no less memory is taken for granted.
#pragma once

#include "core/sweep/proposer.h"

namespace memtune::sweep {

// `budget_bytes` of allocated memory; 0: whatever the device, or the memory cap, has.
MakeProposer propose_largest_batches(int64_t budget_bytes);

// All numbers that divide `samples`, ascending: the batches with which steps of so many samples can be made.
std::vector<int64_t> divisors(int64_t samples);

}  // namespace memtune::sweep
