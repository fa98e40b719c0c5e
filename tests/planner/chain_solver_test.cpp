// The solver against every choice there is, where those can be counted, and against the clock where they cannot.
#include "core/planner/chain_solver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "tests/planner/made_up_chains.h"

using namespace memtune::planner;

namespace {

// Visits every choice.
void each_choice(const Chain& chain, const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> choice(chain.blocks.size(), 0);
  for (size_t i = 0; i < choice.size();) {
    visit(choice);
    for (i = 0; i < choice.size(); choice[i++] = 0)
      if (++choice[i] < static_cast<int>(chain.blocks[i].options.size())) break;
  }
}

double least_ms(const Chain& chain) {
  double least = std::numeric_limits<double>::infinity();
  each_choice(chain, [&](const std::vector<int>& choice) {
    const ChainCost cost = simulate(chain, choice);
    if (cost.fits) least = std::min(least, cost.ms);
  });
  return least;
}

// A random chain with a budget between the least and one for everything, and some with little host memory.
Chain random_case(MadeUpChains& random, int most_blocks) {
  Chain chain = random.random(2 + random.below(most_blocks - 1), 3 + random.below(4));
  const std::optional<int64_t> least = least_budget(chain);
  const int64_t all = MadeUpChains::resident_most(chain);
  int64_t moved = 0;
  for (const ChainBlock& block : chain.blocks)
    moved += std::ranges::max(block.options, {}, &ChainOption::moved_bytes).moved_bytes;
  const double share = random.below(3) == 0 ? random.between(0, 0.05) : random.between(0, 1);
  chain.budget_bytes = least.value_or(0) + static_cast<int64_t>(share * static_cast<double>(all));
  if (random.below(4) == 0)
    chain.host_budget_bytes = static_cast<int64_t>(random.between(0.05, 0.7) * static_cast<double>(moved));
  return chain;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("the best of every choice of a short chain is found, its time told and bounded from below") {
  MadeUpChains random(1);
  int solved = 0;
  for (int one = 0; one < 1200; ++one) {
    const Chain chain = random_case(random, one % 20 == 0 ? 7 : 5);
    const double least = least_ms(chain);
    const std::optional<ChainPlan> plan = solve(chain);
    CAPTURE(one);
    REQUIRE(plan.has_value() == (least < std::numeric_limits<double>::infinity()));
    if (!plan) continue;
    ++solved;
    CHECK(plan->cost.ms == doctest::Approx(least).epsilon(1e-9));
    CHECK(simulate(chain, plan->choice).ms == plan->cost.ms);
    CHECK(lower_bound_ms(chain) <= least * (1 + 1e-12));
    CHECK(lower_bound_ms(chain) >= least * (1 - 1e-9));
  }
  CHECK(solved >= 1000);
}

TEST_CASE("a chain of 96 blocks of eight options takes at most seconds") {
  for (const double jitter : {0.0, 0.2, 0.3}) {
    for (const double share : {0.12, 0.3, 0.6}) {
      Chain chain = MadeUpChains(7).decoder(96, 8, jitter);
      chain.budget_bytes = static_cast<int64_t>(share * static_cast<double>(chain.budget_bytes));
      const auto start = std::chrono::steady_clock::now();
      const std::optional<ChainPlan> plan = solve(chain);
      const double seconds = seconds_since(start);
      REQUIRE(plan);
      MESSAGE(jitter << " " << share << ": " << plan->cost.ms << " ms, bound " << lower_bound_ms(chain) << ", "
                     << seconds << " s");
    }
  }
}
