// The solver is compared with all choices of short chains, and with a time limit on long ones.
#include "core/plan/planner/chain_solver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "core/plan/planner/chain_block_option_dynamic_program.h"
#include "core/plan/planner/chain_time_lower_bound.h"
#include "core/plan/planner/pruned_chain_and_later_block_memory.h"
#include "tests/planner/made_up_chains.h"
#include "tests/support/samples.h"

namespace memtune::chain_solver_test {

using namespace memtune::planner;

namespace {

// Returns the CPU seconds that a call takes.
template <typename Call>
double seconds_of(const Call& call) {
  const std::clock_t start = std::clock();
  call();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// Visits every choice.
void each_choice(const ChainPlanningProblem& chain, const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> choice(chain.blocks.size(), 0);
  for (size_t i = 0; i < choice.size();) {
    visit(choice);
    for (i = 0; i < choice.size(); choice[i++] = 0)
      if (++choice[i] < static_cast<int>(chain.blocks[i].options.size())) break;
  }
}

double least_ms(const ChainPlanningProblem& chain) {
  double least = std::numeric_limits<double>::infinity();
  each_choice(chain, [&](const std::vector<int>& choice) {
    const ChainSimulationResult cost = simulate(chain, choice);
    if (cost.fits) least = std::min(least, cost.ms);
  });
  return least;
}

// A random chain. Its budget is between the least and one that keeps everything. Some chains have little host memory.
ChainPlanningProblem random_case(MadeUpChains& random, int most_blocks) {
  const int blocks = 2 + random.below(most_blocks - 1), options = 3 + random.below(4);
  ChainPlanningProblem chain = random.below(2) ? random.random(blocks, options) : random.plain(blocks, options);
  const double moved = static_cast<double>(MadeUpChains::moved_most(chain));
  if (random.below(4) == 0) chain.host_budget_bytes = static_cast<int64_t>(random.between(0.05, 0.7) * moved);
  const double share = random.below(3) == 0 ? random.between(0, 0.05) : random.between(0, 1);
  const double all = static_cast<double>(MadeUpChains::resident_most(chain));
  chain.budget_bytes = least_budget(chain).value_or(0) + static_cast<int64_t>(share * all);
  return chain;
}

// By definition: resident bytes plus the forward or backward peak of each block, with the reloaded bytes in backward.
int64_t needed_bytes(const ChainPlanningProblem& chain, const std::vector<int>& choice) {
  int64_t needed = 0, resident = 0, before = 0;
  for (size_t i = 0; i < choice.size(); ++i) {
    const ChainBlockOptionCosts& option = chain.blocks[i].options[static_cast<size_t>(choice[i])];
    needed = std::max({needed, resident + option.forward_peak_bytes, resident + option.backward_peak_bytes + before});
    resident += option.resident_bytes;
    before = option.offloaded_bytes;
  }
  return needed;
}

std::optional<ChainSolution> solve(const ChainPlanningProblem& chain) {
  const std::vector<ChainSolution> plans = solve_best(chain, 1);
  return plans.empty() ? std::nullopt : std::optional(plans.front());
}

}  // namespace

TEST_CASE("solve finds the best choice of a short chain and lower_bound_ms equals its time") {
  MadeUpChains random(1);
  int solved = 0;
  for (int one = 0; one < tests::samples(1300); ++one) {
    const ChainPlanningProblem chain = random_case(random, one % 20 == 0 ? 7 : 5);
    const double least = least_ms(chain);
    const std::optional<ChainSolution> plan = solve(chain);
    CAPTURE(one);
    REQUIRE(plan.has_value() == std::isfinite(least));
    CHECK(std::isinf(lower_bound_ms(chain)) == !plan.has_value());
    if (!plan) continue;
    ++solved;
    CHECK(plan->cost.ms == doctest::Approx(least).epsilon(1e-9));
    CHECK(simulate(chain, plan->choice).ms == plan->cost.ms);
    CHECK(lower_bound_ms(chain) <= least * (1 + 1e-12));
    CHECK(lower_bound_ms(chain) >= least * (1 - 1e-9));
  }
  CHECK(solved >= tests::samples(1000));
}

TEST_CASE("solve finds the best choice with a disk tier within all three budgets") {
  MadeUpChains random(21);
  int solved = 0, on_disk = 0, limited = 0;
  for (int one = 0; one < tests::samples(1600); ++one) {
    ChainPlanningProblem chain = random_case(random, one % 20 == 0 ? 7 : 5);
    random.add_disk(chain);
    if (!chain.host_budget_bytes && random.below(2)) chain.host_budget_bytes = MadeUpChains::moved_most(chain) / 4 + 1;
    const double share = random.below(3) == 0 ? random.between(0, 0.05) : random.between(0, 1);
    chain.budget_bytes = least_budget(chain).value_or(0) +
                         static_cast<int64_t>(share * static_cast<double>(MadeUpChains::resident_most(chain)));
    const double least = least_ms(chain);
    const std::optional<ChainSolution> plan = solve(chain);
    CAPTURE(one);
    REQUIRE(plan.has_value() == std::isfinite(least));
    if (!plan) continue;
    ++solved;
    REQUIRE(plan->cost.ms == doctest::Approx(least).epsilon(1e-9));
    REQUIRE(lower_bound_ms(chain) <= least * (1 + 1e-12));
    REQUIRE(lower_bound_ms(chain) >= least * (1 - 1e-9));
    int64_t disk = 0;
    for (size_t i = 0; i < plan->choice.size(); ++i)
      disk += chain.blocks[i].options[static_cast<size_t>(plan->choice[i])].disk_bytes;
    on_disk += disk > 0;
    limited += chain.disk_budget_bytes > 0;
  }
  CHECK(solved >= tests::samples(1000));
  CHECK(on_disk >= tests::samples(300));
  CHECK(limited >= tests::samples(200));
}

TEST_CASE("the label search alone finds the best choice with a disk tier") {
  MadeUpChains random(33);
  int solved = 0;
  for (int one = 0; one < tests::samples(600); ++one) {
    ChainPlanningProblem chain = random_case(random, 5);
    random.add_disk(chain);
    chain.budget_bytes += least_budget(chain).value_or(0);
    const double least = least_ms(chain);
    const PrunedChainAndLaterBlockMemory reduced(chain);
    if (!std::isfinite(least)) continue;
    const ChainTimeLowerBound bound(reduced);
    constexpr size_t kAll = std::numeric_limits<size_t>::max() / 4;
    double found = std::numeric_limits<double>::infinity();
    for (const auto& choice : ChainBlockOptionDynamicProgram(reduced, bound, found, kAll).run()) {
      const ChainSimulationResult cost = simulate(chain, reduced.original(choice));
      if (cost.fits) found = std::min(found, cost.ms);
    }
    CHECK(found == doctest::Approx(least).epsilon(1e-9));
    ++solved;
  }
  CHECK(solved > tests::samples(400));
}

TEST_CASE("compute waits for disk writes if host memory is full and for late disk reads") {
  ChainPlanningProblem chain;
  chain.out_bytes_per_ms = chain.in_bytes_per_ms = 100;
  chain.write_bytes_per_ms = 10, chain.read_bytes_per_ms = 20;
  chain.budget_bytes = 10'000, chain.staging_bytes = 40;
  ChainBlockOptionCosts moved;
  moved.offloaded_bytes = moved.disk_bytes = moved.forward_peak_bytes = moved.backward_peak_bytes = 100;
  for (int i = 0; i < 3; ++i) chain.blocks.push_back({2, 3, {moved}});
  const ChainSimulationResult cost = simulate(chain, std::vector<int>(3));
  // Each block writes for 10 ms, of which 4 may be pending. The second block waits 6 ms, the third 10 - 2.
  CHECK(cost.forward_wait_ms == doctest::Approx(6 + 8));
  CHECK(cost.backward_wait_ms == doctest::Approx(5 + 2 + 2));  // 5 ms of reads, 3 of them overlap the block before
  chain.disk_budget_bytes = 299;
  CHECK_FALSE(simulate(chain, std::vector<int>(3)).fits);
  chain.disk_budget_bytes = 0, chain.read_bytes_per_ms = 0;
  CHECK_FALSE(simulate(chain, std::vector<int>(3)).fits);
}

TEST_CASE("eight blocks of six options are still solved exactly") {
  MadeUpChains random(5);
  for (int one = 0; one < 2; ++one) {
    ChainPlanningProblem chain = random.random(8, 6);
    chain.budget_bytes = least_budget(chain).value() + MadeUpChains::resident_most(chain) / 10;
    const double least = least_ms(chain);
    CHECK(solve(chain).value().cost.ms == doctest::Approx(least).epsilon(1e-9));
    CHECK(lower_bound_ms(chain) == doctest::Approx(least).epsilon(1e-9));
  }
}

TEST_CASE("the least budget is that of the smallest choice within host memory") {
  MadeUpChains random(3);
  int limited = 0;
  for (int one = 0; one < 200; ++one) {
    ChainPlanningProblem chain = random_case(random, 4);
    ChainPlanningProblem roomy = chain;
    roomy.budget_bytes = int64_t{1} << 50;
    std::optional<int64_t> least;
    each_choice(chain, [&](const std::vector<int>& choice) {
      if (simulate(roomy, choice).fits) least = std::min(least.value_or(1LL << 50), needed_bytes(chain, choice));
    });
    CHECK(least_budget(chain) == least);
    if (!least) continue;
    chain.budget_bytes = *least;
    CHECK(solve(chain));
    --chain.budget_bytes;
    CHECK_FALSE(solve(chain));
    limited += chain.host_budget_bytes > 0;
  }
  CHECK(limited > 20);
}

TEST_CASE("solve_best returns different choices in the order of their simulated time") {
  ChainPlanningProblem chain = MadeUpChains(2).decoder(24, 6, 0.2);
  chain.budget_bytes /= 3;
  const std::vector<ChainSolution> plans = solve_best(chain, 40);
  REQUIRE(plans.size() == 40);
  CHECK(plans.front().cost.ms == doctest::Approx(solve(chain).value().cost.ms).epsilon(1e-3));
  CHECK(plans.back().cost.ms < plans.front().cost.ms * 1.01);
  std::set<std::vector<int>> different;
  for (size_t i = 0; i < plans.size(); ++i) {
    different.insert(plans[i].choice);
    CHECK(simulate(chain, plans[i].choice).fits);
    CHECK(simulate(chain, plans[i].choice).ms == plans[i].cost.ms);
    if (i > 0) CHECK(plans[i - 1].cost.ms <= plans[i].cost.ms);
  }
  CHECK(different.size() == plans.size());
}

TEST_CASE("an empty chain takes no time and a chain that cannot fit has no choice") {
  CHECK(solve(ChainPlanningProblem{}).value().cost.ms == 0);
  CHECK(lower_bound_ms(ChainPlanningProblem{}) == 0);
  ChainPlanningProblem chain = MadeUpChains(2).decoder(4, 2, 0);
  chain.budget_bytes = 0;
  CHECK_FALSE(solve(chain));
  CHECK(solve_best(chain, 3).empty());
  CHECK(std::isinf(lower_bound_ms(chain)));
  chain.blocks[2].options = {{.offloaded_bytes = 1}};
  chain.in_bytes_per_ms = 0;
  CHECK_FALSE(least_budget(chain));
}

TEST_CASE("long decoder chains are solved in time and within 0.3 percent of the lower bound") {
  int one = 0;
  for (const double jitter : {0.0, 0.3}) {
    for (const double share : {0.12, 0.3}) {
      if (!tests::is_sampled(one++)) continue;
      CAPTURE(jitter);
      CAPTURE(share);
      ChainPlanningProblem chain = MadeUpChains(7).decoder(96, 8, jitter);
      chain.budget_bytes = static_cast<int64_t>(share * static_cast<double>(chain.budget_bytes));
      std::optional<ChainSolution> plan;
      const double solved = seconds_of([&] { plan = solve(chain); });
      // The solver keeps 320'000 labels and extends each by every option of the next block. One extension takes less
      // than a simulation.
      const int times = 20'000;
      const double simulated = seconds_of([&] {
        for (int i = 0; i < times; ++i) simulate(chain, std::vector<int>(chain.blocks.size(), i % 2));
      });
      CHECK(solved <= simulated / times *
                          static_cast<double>(ChainSolverEffortOptions().labels * chain.blocks[0].options.size()));
      REQUIRE(plan);
      CHECK(plan->cost.ms <= lower_bound_ms(chain) * 1.003);
    }
  }
}

}  // namespace memtune::chain_solver_test
