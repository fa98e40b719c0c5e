// The recurrences of a chain, on numbers that can be checked by hand.
#include "core/plan/planner/chain_planning_problem.h"

#include <doctest/doctest.h>

#include <vector>

namespace memtune::chain_test {

using namespace memtune::planner;

namespace {

// Three blocks of 10 ms forward and 20 ms backward. Each keeps 100 bytes, or recomputes them in 5 ms, or offloads them.
ChainPlanningProblem three_blocks(int64_t budget) {
  const ChainBlockOptionCosts keep{.resident_bytes = 100, .forward_peak_bytes = 110, .backward_peak_bytes = 120};
  const ChainBlockOptionCosts again{.recompute_ms = 5, .forward_peak_bytes = 110, .backward_peak_bytes = 120};
  const ChainBlockOptionCosts move{.offloaded_bytes = 100, .forward_peak_bytes = 110, .backward_peak_bytes = 120};
  return {std::vector<ChainBlockTimesAndOptions>(3, {10, 20, {keep, again, move}}), 20, 10, budget, 0};
}

}  // namespace

TEST_CASE("a chain that keeps everything takes the sum of its times and of its bytes") {
  const ChainSimulationResult cost = simulate(three_blocks(1000), std::vector<int>{0, 0, 0});
  CHECK(cost.fits);
  CHECK(cost.ms == 90);
  CHECK(cost.peak_bytes == 320);
  CHECK_FALSE(simulate(three_blocks(319), std::vector<int>{0, 0, 0}).fits);
}

TEST_CASE("recomputation extends backward and offloading waits if room is short") {
  CHECK(simulate(three_blocks(120), std::vector<int>{1, 1, 1}).ms == 105);
  const ChainSimulationResult moved = simulate(three_blocks(220), std::vector<int>{2, 0, 0});
  CHECK(moved.fits);
  CHECK(moved.ms == 90);  // offload takes 5 ms in the second block, reload 10 ms in its backward
  const ChainSimulationResult last = simulate(three_blocks(1000), std::vector<int>{0, 0, 2});
  CHECK(last.backward_wait_ms == 10);  // no later block overlaps the reload
  const ChainSimulationResult tight = simulate(three_blocks(120), std::vector<int>{2, 1, 1});
  CHECK_FALSE(tight.fits);  // the first block's bytes are reloaded during the second's backward
  CHECK(simulate(three_blocks(220), std::vector<int>{2, 1, 1}).ms == 100);
  const ChainSimulationResult waits = simulate(three_blocks(150), std::vector<int>{2, 2, 0});
  CHECK_FALSE(waits.fits);
}

TEST_CASE("nothing is offloaded without PCIe bandwidth or beyond host memory") {
  ChainPlanningProblem chain = three_blocks(1000);
  chain.host_budget_bytes = 150;
  CHECK(simulate(chain, std::vector<int>{2, 0, 0}).fits);
  CHECK_FALSE(simulate(chain, std::vector<int>{2, 2, 0}).fits);
  chain.out_bytes_per_ms = 0;
  CHECK_FALSE(simulate(chain, std::vector<int>{2, 0, 0}).fits);
}

}  // namespace memtune::chain_test
