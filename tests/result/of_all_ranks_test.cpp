// Why: a step is over when the slowest rank's is, and a device is too small when any rank's is.
#include "core/result/of_all_ranks.h"

#include <doctest/doctest.h>

namespace memtune::result {
namespace {

Measurement rank(double step_ms, int64_t peak, double loss, double waited_ms) {
  Measurement measurement;
  measurement.step_ms = summarize({step_ms});
  measurement.peak_bytes = {peak, 2 * peak, 0};
  measurement.samples_per_s = 4 / step_ms * 1e3;
  measurement.loss = {loss, loss - 1};
  measurement.communication = {30, 15, waited_ms};
  measurement.gradients = {true, true, 0, "", "none"};
  return measurement;
}

TEST_CASE("the slowest rank's step, the highest peaks, all samples, the mean of the losses") {
  const Measurement all = of_all_ranks(std::vector{rank(10, 300, 2, 1), rank(20, 200, 4, 0.5)});
  CHECK(all.outcome == Outcome::ok);
  CHECK(all.step_ms.median == 20);
  CHECK(all.peak_bytes.allocated == 300);
  CHECK(all.peak_bytes.reserved == 600);
  CHECK(all.samples_per_s == doctest::Approx(8 / 20.0 * 1e3));
  CHECK(all.loss == std::vector<double>{3, 2});
  CHECK(all.communication.gathered_bytes == 30);
  CHECK(all.communication.exposed_ms == 1);
  CHECK(all.gradients.equal);
  REQUIRE(all.ranks.size() == 2);
  CHECK(all.ranks[1].rank == 1);
  CHECK(all.ranks[1].step_ms.median == 20);
  CHECK(all.ranks[1].peak_bytes.allocated == 200);
  CHECK(all.ranks[1].exposed_communication_ms == 0.5);
  CHECK(all.ranks[1].loss == std::vector<double>{4, 3});
}

TEST_CASE("what differs on one rank differs, and the reason names it") {
  std::vector ranks = {rank(10, 1, 2, 0), rank(10, 1, 2, 0), rank(10, 1, 2, 0)};
  ranks[1].outcome = Outcome::mismatch;
  ranks[1].reason = "gradients differ from none's";
  ranks[1].gradients = {true, false, 0.5, "w", "none"};
  ranks[2].gradients = {true, false, 0.25, "v", "none"};
  const Measurement all = of_all_ranks(ranks);
  CHECK(all.outcome == Outcome::mismatch);
  CHECK(all.reason == "rank 1: gradients differ from none's");
  CHECK_FALSE(all.gradients.equal);
  CHECK(all.gradients.worst == "w");
}

TEST_CASE("what a rank says of gradients that are right is told, whichever it is") {
  std::vector ranks = {rank(10, 1, 2, 0), rank(10, 1, 2, 0)};
  ranks[1].reason = "gradients differ by no more than the baseline's own runs";
  CHECK(of_all_ranks(ranks).outcome == Outcome::ok);
  CHECK(of_all_ranks(ranks).reason == ranks[1].reason);
}

TEST_CASE("one rank's is as it was") {
  const Measurement one = of_all_ranks(std::vector{rank(10, 300, 2, 1)});
  CHECK(one.ranks.empty());
  CHECK(one.loss == std::vector<double>{2, 1});
}

}  // namespace
}  // namespace memtune::result
