// States of a choice and lower bounds of its completion, compared with simulate() of the whole choice.
#include "core/plan/planner/chain_time_lower_bound.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/planner/chain_planning_problem.h"
#include "core/plan/planner/chain_solver.h"
#include "core/plan/planner/pruned_chain_and_later_block_memory.h"
#include "tests/planner/made_up_chains.h"

namespace memtune::chain_lower_bound_test {

using namespace memtune::planner;

namespace {

ChainPlanningProblem random_chain(MadeUpChains& random) {
  const int blocks = 2 + random.below(9);
  ChainPlanningProblem chain = random.below(2) ? random.random(blocks, 4) : random.plain(blocks, 4);
  const double all = static_cast<double>(MadeUpChains::resident_most(chain));
  if (random.below(3) == 0) chain.host_budget_bytes = MadeUpChains::moved_most(chain) / 2;
  if (random.below(2)) random.add_disk(chain);
  chain.budget_bytes = least_budget(chain).value_or(0) + static_cast<int64_t>(random.between(0, 0.5) * all);
  return chain;
}

// Returns the state after each block of a choice.
std::vector<ChainPrefixState> followed(const PrunedChainAndLaterBlockMemory& chain, const std::vector<int>& choice) {
  std::vector<ChainPrefixState> states(1);
  for (size_t i = 0; i < choice.size(); ++i)
    states.push_back(follow(chain, states.back(), i, chain.options(i)[static_cast<size_t>(choice[i])]));
  states.erase(states.begin());
  return states;
}

// Visits choices that fit, for many chains.
template <typename Visit>
int each_fitting(const Visit& visit) {
  MadeUpChains random(11);
  int fitting = 0;
  for (int one = 0; one < 400; ++one) {
    const PrunedChainAndLaterBlockMemory chain(random_chain(random));
    if (!chain.least_choice()) continue;
    ChainTimeLowerBound bound(chain);
    bound.raise(simulate(chain.chain(), *chain.least_choice()).ms);
    for (int draw = 0; draw < 200; ++draw) {
      std::vector<int> choice;
      for (size_t i = 0; i < chain.size(); ++i)
        choice.push_back(random.below(static_cast<int>(chain.options(i).size())));
      const ChainSimulationResult cost = simulate(chain.chain(), choice);
      if (cost.fits) visit(chain, bound, choice, cost.ms), ++fitting;
    }
  }
  return fitting;
}

}  // namespace

TEST_CASE("the prefix states of a choice end at the time that simulate() returns") {
  int waits_for_copies_out = 0;
  const auto visit = [&](const PrunedChainAndLaterBlockMemory& chain, const ChainTimeLowerBound&,
                         const std::vector<int>& choice, double ms) {
    const ChainPrefixState last = followed(chain, choice).back();
    CHECK(ended_ms(last) == doctest::Approx(ms).epsilon(1e-9));
    waits_for_copies_out += last.queue_ms + last.residue_ms > last.back_ms;
  };
  CHECK(each_fitting(visit) > 5000);
  CHECK(waits_for_copies_out > 100);  // in backward
}

TEST_CASE("no choice is faster than the lower bound of any of its prefixes") {
  double nearest = 0;
  const auto visit = [&](const PrunedChainAndLaterBlockMemory& chain, const ChainTimeLowerBound& bound,
                         const std::vector<int>& choice, double ms) {
    CHECK(bound.root_ms() <= ms * (1 + 1e-9));
    const std::vector<ChainPrefixState> states = followed(chain, choice);
    for (size_t i = 0; i < states.size(); ++i) {
      const double bound_ms = bound.completed_ms(states[i], i, static_cast<size_t>(choice[i]));
      CHECK(bound_ms <= ms * (1 + 1e-9));
      if (i == 0) nearest = std::max(nearest, bound_ms / ms);
    }
  };
  CHECK(each_fitting(visit) > 5000);
  CHECK(nearest > 0.99);
}

}  // namespace memtune::chain_lower_bound_test
