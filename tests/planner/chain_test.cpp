// The recurrences of a chain, on numbers that can be followed by hand.
#include "core/plan/planner/chain.h"

#include <doctest/doctest.h>

#include <vector>

using namespace memtune::planner;

namespace {

// Three blocks of 10 ms forward, 20 ms backward; each keeps 100 bytes, or recomputes for 5 ms, or moves them.
Chain three_blocks(int64_t budget) {
  const ChainOption keep{.resident_bytes = 100, .forward_peak_bytes = 110, .backward_peak_bytes = 120};
  const ChainOption again{.recompute_ms = 5, .forward_peak_bytes = 110, .backward_peak_bytes = 120};
  const ChainOption move{.offloaded_bytes = 100, .forward_peak_bytes = 110, .backward_peak_bytes = 120};
  return {std::vector<ChainBlock>(3, {10, 20, {keep, again, move}}), 20, 10, budget, 0};
}

}  // namespace

TEST_CASE("a chain that keeps everything takes its own time and the sum of what it keeps") {
  const ChainCost cost = simulate(three_blocks(1000), std::vector<int>{0, 0, 0});
  CHECK(cost.fits);
  CHECK(cost.ms == 90);
  CHECK(cost.peak_bytes == 320);
  CHECK_FALSE(simulate(three_blocks(319), std::vector<int>{0, 0, 0}).fits);
}

TEST_CASE("what is recomputed adds to backward, what moves leaves in forward and waits where room is short") {
  CHECK(simulate(three_blocks(120), std::vector<int>{1, 1, 1}).ms == 105);
  const ChainCost moved = simulate(three_blocks(220), std::vector<int>{2, 0, 0});
  CHECK(moved.fits);
  CHECK(moved.ms == 90);  // 100 bytes leave in 5 ms under the second block, and come back in 10 under its backward
  const ChainCost last = simulate(three_blocks(1000), std::vector<int>{0, 0, 2});
  CHECK(last.backward_wait_ms == 10);  // no block behind it hides the copy back
  const ChainCost tight = simulate(three_blocks(120), std::vector<int>{2, 1, 1});
  CHECK_FALSE(tight.fits);  // what comes back for the first lies beside the second's backward
  CHECK(simulate(three_blocks(220), std::vector<int>{2, 1, 1}).ms == 100);
  const ChainCost waits = simulate(three_blocks(150), std::vector<int>{2, 2, 0});
  CHECK_FALSE(waits.fits);
}

TEST_CASE("nothing moves without a link, nor more than host memory takes") {
  Chain chain = three_blocks(1000);
  chain.host_budget_bytes = 150;
  CHECK(simulate(chain, std::vector<int>{2, 0, 0}).fits);
  CHECK_FALSE(simulate(chain, std::vector<int>{2, 2, 0}).fits);
  chain.out_bytes_per_ms = 0;
  CHECK_FALSE(simulate(chain, std::vector<int>{2, 0, 0}).fits);
}
