// A step ends when the slowest rank ends it. A device is too small if any rank's is.
#include "core/answer/result/merge_ranks.h"

#include <doctest/doctest.h>
namespace memtune::result::merge_ranks_test {
namespace {

TrialMeasurement rank(double step_ms, int64_t peak, double loss, double waited_ms) {
  TrialMeasurement measurement;
  measurement.step_ms = summarize({step_ms});
  measurement.peak_bytes = {peak, 2 * peak, 0};
  measurement.samples_per_s = 4 / step_ms * 1e3;
  measurement.loss = {loss, loss - 1};
  measurement.communication = {30, 15, waited_ms, 2 * waited_ms};
  measurement.gradients = {true, true, 0, "", "none"};
  return measurement;
}

TEST_CASE("merged ranks have the slowest step and the highest peaks and all samples and the mean loss") {
  const TrialMeasurement all = merge_ranks(std::vector{rank(10, 300, 2, 1), rank(20, 200, 4, 0.5)});
  CHECK(all.outcome == TrialOutcome::ok);
  CHECK(all.step_ms.median == 20);
  CHECK(all.peak_bytes.allocated == 300);
  CHECK(all.peak_bytes.reserved == 600);
  CHECK(all.samples_per_s == doctest::Approx(8 / 20.0 * 1e3));
  CHECK(all.loss == std::vector<double>{3, 2});
  CHECK(all.communication.gathered_bytes == 30);
  CHECK(all.communication.exposed_ms == 1);
  CHECK(all.communication.collectives_ms == 2);
  CHECK(all.gradients.equal);
  REQUIRE(all.ranks.size() == 2);
  CHECK(all.ranks[1].rank == 1);
  CHECK(all.ranks[1].step_ms.median == 20);
  CHECK(all.ranks[1].peak_bytes.allocated == 200);
  CHECK(all.ranks[1].exposed_communication_ms == 0.5);
  CHECK(all.ranks[1].loss == std::vector<double>{4, 3});
}

TEST_CASE("a mismatch on one rank is a mismatch and the reason names the rank") {
  std::vector ranks = {rank(10, 1, 2, 0), rank(10, 1, 2, 0), rank(10, 1, 2, 0)};
  ranks[1].outcome = TrialOutcome::mismatch;
  ranks[1].reason = "gradients differ from none's";
  ranks[1].gradients = {true, false, 0.5, "w", "none"};
  ranks[2].gradients = {true, false, 0.25, "v", "none"};
  const TrialMeasurement all = merge_ranks(ranks);
  CHECK(all.outcome == TrialOutcome::mismatch);
  CHECK(all.reason == "rank 1: gradients differ from none's");
  CHECK_FALSE(all.gradients.equal);
  CHECK(all.gradients.worst == "w");
}

TEST_CASE("the gradient note of any rank that worked is reported") {
  std::vector ranks = {rank(10, 1, 2, 0), rank(10, 1, 2, 0)};
  ranks[1].reason = "gradients differ by no more than the baseline's own runs";
  CHECK(merge_ranks(ranks).outcome == TrialOutcome::ok);
  CHECK(merge_ranks(ranks).reason == ranks[1].reason);
}

ResumableTrainingResult training(double step_ms, std::vector<SingleStateSaveRecord> saves) {
  ResumableTrainingResult result;
  result.loss = {3, 2};
  result.step_ms = step_ms;
  result.times_ms = {step_ms, 15};
  result.samples_per_s = 4 / step_ms * 1e3;
  result.saves = std::move(saves);
  result.save_host_bytes = static_cast<int64_t>(step_ms);
  return result;
}

TEST_CASE("a merged training has the slowest times and all bytes and the failed saves of any rank") {
  const ResumableTrainingResult all =
      merge_ranks(std::vector{training(10, {{1, 5, 40, 100, ""}, {2, 1, 9, 100, ""}}),
                              training(20, {{1, 7, 30, 60, ""}, {2, 1, 0, 0, "full"}})});
  CHECK(all.loss == std::vector<double>{3, 2});
  CHECK(all.step_ms == 20);
  CHECK(all.times_ms == std::vector<double>{20, 15});
  CHECK(all.samples_per_s == doctest::Approx(8 / 20.0 * 1e3));
  CHECK(all.save_host_bytes == 20);
  REQUIRE(all.saves.size() == 2);
  CHECK(all.saves[0].blocked_ms == 7);
  CHECK(all.saves[0].durable_ms == 40);
  CHECK(all.saves[0].bytes == 160);
  CHECK(all.saves[0].error == "");
  CHECK(all.saves[1].error == "rank 1: full");
}

StateSaveModeMeasurement saving(double ms, int64_t bytes) {
  StateSaveModeMeasurement saves;
  saves.mode = "async";
  saves.saves = 4;
  saves.bytes = saves.host_bytes = bytes;
  saves.blocked_ms = saves.durable_ms = saves.load_ms = ms;
  saves.slowdown = 1 + ms;
  saves.steps_with_save = 3;
  return saves;
}

TEST_CASE("merged save costs have the slowest times and all bytes and the failure of any rank") {
  std::vector ranks = {saving(2, 10), saving(1, 30)};
  StateSaveModeMeasurement all = merge_ranks(ranks);
  CHECK(all.mode == "async");
  CHECK(all.blocked_ms == 2);
  CHECK(all.durable_ms == 2);
  CHECK(all.load_ms == 2);
  CHECK(all.slowdown == 3);
  CHECK(all.bytes == 40);
  CHECK(all.host_bytes == 30);
  ranks[1].slowdown = std::nullopt;
  ranks[1].no_slowdown = "steps are longer";
  CHECK(merge_ranks(ranks).no_slowdown == "steps are longer");
  CHECK_FALSE(merge_ranks(ranks).slowdown);
  ranks[0].outcome = TrialOutcome::disk_error;
  ranks[1].outcome = TrialOutcome::disk_full;
  ranks[1].reason = "No space left on device";
  CHECK(merge_ranks(ranks).outcome == TrialOutcome::disk_full);
  CHECK(merge_ranks(ranks).reason == "rank 1: No space left on device");
}

TEST_CASE("a single rank stays as it is") {
  const TrialMeasurement one = merge_ranks(std::vector{rank(10, 300, 2, 1)});
  CHECK(one.ranks.empty());
  CHECK(one.loss == std::vector<double>{2, 1});
}

}  // namespace
}  // namespace memtune::result::merge_ranks_test
