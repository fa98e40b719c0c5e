// The best choices of a chain, as simulate() tells their cost: a label dynamic programme over the blocks, its labels
// exact and never rounded, what it drops bounded by a relaxation. Exact where the choices are few (2 million) or few
// labels stay (chains of identical blocks); else the best found, and lower_bound_ms() tells how far from the best that
// can be. One thread; some 0.1 s for 32 blocks of six options. Everything is a pure function: same chain, same answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/planner/chain.h"

namespace memtune::planner {

// How hard to look. Whoever plays what is found through a better model needs good choices, not proofs.
struct ChainEffort {
  size_t labels = 320'000;  // that are kept, of all blocks together; twice as many where host memory is short
  bool pairs = true;        // of blocks are changed at once, in what was found
  int steps = 1000;         // towards a better bound
};

struct ChainPlan {
  std::vector<int> choice;  // an option a block
  ChainCost cost;           // by simulate()
};

// The choice of least time that fits; nothing when none does.
std::optional<ChainPlan> solve(const Chain& chain);

// The best `most` different choices found, best first; empty when none fits.
std::vector<ChainPlan> solve_best(const Chain& chain, size_t most, const ChainEffort& effort = {});

// No choice that fits takes less; infinity when none fits. As long as solve().
double lower_bound_ms(const Chain& chain);

// The least budget_bytes with a choice that fits; nothing when none fits any. With a limit of host memory, the least
// found: exact unless thousands of ways trade host bytes for resident ones.
std::optional<int64_t> least_budget(const Chain& chain);

// ms that `step_bytes` more of budget save; nothing when nothing fits without them.
std::optional<double> saved_ms(const Chain& chain, int64_t step_bytes);

}  // namespace memtune::planner
