// Finds the best choices of a chain, with costs from simulate(). It is a label dynamic programme over the blocks:
// labels are exact states, and a relaxation bounds what is dropped.
//
// The result is exact if there are few choices (2 million) or few labels stay (chains of identical blocks). Otherwise
// it is the best choice found, and lower_bound_ms() shows how far from the best it can be. Uses one thread, about 0.1 s
// for 32 blocks of six options. Every function is pure: same chain, same answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/planner/chain_planning_problem.h"

namespace memtune::planner {

// Search effort. A caller that scores the choices with a better model needs good choices, not proofs.
struct ChainSolverEffortOptions {
  size_t labels = 320'000;  // kept, of all blocks together; twice as many with a host limit
  bool pairs = true;        // also change two blocks at once, in what was found
  int steps = 1000;         // of the ascent to a better bound
};

struct ChainSolution {
  std::vector<int> choice;     // one option per block
  ChainSimulationResult cost;  // by simulate()
};

// The best `most` different choices found, fastest first; empty if none fits.
std::vector<ChainSolution> solve_best(const ChainPlanningProblem& chain, size_t most,
                                      const ChainSolverEffortOptions& effort = {});

// No choice that fits is faster; infinity if none fits. Takes as long as solve_best().
double lower_bound_ms(const ChainPlanningProblem& chain);

// The least budget_bytes at which a choice fits; nothing if there is none. With a limit of host memory, the least
// found: exact unless thousands of choices trade host bytes for resident ones.
std::optional<int64_t> least_budget(const ChainPlanningProblem& chain);

}  // namespace memtune::planner
