// Every rule of the recommendation, with figures that can be checked by hand.
#include "core/answer/result/recommend.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/base/error.h"

namespace memtune::recommend_test {

using namespace memtune::result;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TrialResultRow row(const std::string& strategy, double ms, int64_t gib) {
  TrialResultRow row;
  row.measurement.strategy = strategy;
  row.measurement.step_ms.median = ms;
  row.measurement.peak_bytes.allocated = gib * kGiB;
  return row;
}

std::vector<TrialResultRow> usual() {
  return {row("none", 100, 36), row("checkpoint:full", 124, 13), row("offload:stream", 200, 10)};
}

}  // namespace

TEST_CASE("without trials nothing is recommended") {
  const Recommendation advice = recommend({}, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "");
  CHECK(advice.reason == "no trial has run to its end");
  CHECK_FALSE(advice.fits);
}

TEST_CASE("without a budget the fastest wins and the reason has the cost of less memory") {
  const Recommendation advice = recommend(usual(), 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "none");
  CHECK(advice.fits);
  CHECK(advice.reason ==
        "the fastest of 3 that worked: 100 ms a step, 36 GiB at the peak; checkpoint:full saves 23 GiB for 24 % more "
        "time");
}

TEST_CASE("a budget excludes larger trials and a peak equal to the budget fits") {
  const Recommendation advice = recommend(usual(), 13 * kGiB, RecommendationGoal::throughput);
  CHECK(advice.strategy == "checkpoint:full");
  CHECK(advice.fits);
  CHECK(advice.reason ==
        "the fastest of 2 within 13 GiB: 124 ms a step, 13 GiB at the peak; none needs 36 GiB; offload:stream saves "
        "3 GiB for 61 % more time");
  CHECK(recommend(usual(), 13 * kGiB - 1, RecommendationGoal::throughput).strategy == "offload:stream");
}

TEST_CASE("a budget limits what is on the device where that is known") {
  std::vector<TrialResultRow> rows = usual();
  for (TrialResultRow& each : rows)
    each.measurement.peak_bytes.device = each.measurement.peak_bytes.allocated + 2 * kGiB;
  rows[1].measurement.cap_bytes = 15 * kGiB;
  CHECK(recommend(rows, 15 * kGiB, RecommendationGoal::throughput).reason ==
        "the fastest of 2 within 15 GiB: 124 ms a step, 15 GiB on the device, ran within 15 GiB; none needs 38 GiB; "
        "offload:stream saves 3 GiB for 61 % more time");
  CHECK(recommend(rows, 15 * kGiB - 1, RecommendationGoal::throughput).strategy == "offload:stream");
  CHECK_FALSE(recommend(rows, 11 * kGiB, RecommendationGoal::throughput).fits);
}

TEST_CASE("the reason says that a trial is the only one") {
  CHECK(recommend(std::vector{row("none", 100, 36)}, 0, RecommendationGoal::throughput).reason ==
        "the only one that worked: 100 ms a step, 36 GiB at the peak");
  CHECK(recommend(usual(), 10 * kGiB, RecommendationGoal::throughput).reason ==
        "the only one within 10 GiB: 200 ms a step, 10 GiB at the peak; none needs 36 GiB; nothing needs less memory");
}

TEST_CASE("the smallest working trial is named if nothing fits") {
  const Recommendation advice = recommend(usual(), 8 * kGiB, RecommendationGoal::throughput);
  CHECK(advice.strategy == "offload:stream");
  CHECK_FALSE(advice.fits);
  CHECK(advice.reason == "nothing fits 8 GiB: the least that works is offload:stream with 10 GiB");
  std::vector<TrialResultRow> rows = usual();
  mark_rows(rows, advice);
  for (const TrialResultRow& row : rows) CHECK_FALSE(row.recommended);
}

TEST_CASE("among indistinguishable step times the smallest peak wins and the reason says so") {
  std::vector<TrialResultRow> rows = {row("none", 100, 36), row("checkpoint:op", 101, 20),
                                      row("offload:stream", 110, 10)};
  rows[0].measurement.step_ms = {100, 98, 102, {}};
  rows[1].measurement.step_ms = {101, 99, 103, {}};
  rows[2].measurement.step_ms = {110, 109, 111, {}};
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "checkpoint:op");
  CHECK(advice.reason.starts_with("as fast as none within the noise, and takes less memory; one of 3 that worked"));
  rows[1].measurement.step_ms = {104, 103, 105, {}};
  CHECK(recommend(rows, 0, RecommendationGoal::throughput).strategy == "none");
}

TEST_CASE("among indistinguishable step times and nearly equal peaks the trial that changes less wins") {
  std::vector<TrialResultRow> rows = {row("none", 100, 100), row("checkpoint:op", 99, 99)};
  rows[0].measurement.step_ms = {100, 98, 102, {}};
  rows[1].measurement.step_ms = {99, 97, 101, {}};
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "none");
  CHECK(advice.reason.starts_with("as fast as checkpoint:op within the noise, and changes less; one of 2 that worked"));
}

TEST_CASE("a trial whose interval has its ends swapped is still chosen") {
  std::vector<TrialResultRow> rows = {row("none", 100, 10), row("checkpoint:full", 200, 5)};
  rows[0].measurement.step_ms = {100, 150, 50, {}};
  CHECK(recommend(rows, 0, RecommendationGoal::throughput).strategy == "none");
}

TEST_CASE("an emulated offload is not ranked by time and is chosen only if nothing else fits") {
  std::vector<TrialResultRow> rows = usual();
  rows[2].measurement.step_ms.median = 50;  // faster than all others
  rows.push_back(row("offload:sync", 40, 12));
  for (TrialResultRow& each : rows) each.measurement.emulated = true;
  for (size_t i : {2, 3}) rows[i].measurement.transfer.out_bytes = 1;
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "none");
  CHECK(advice.reason.starts_with("the fastest of 2 that worked (offloads aside: the CPU emulates their copies)"));
  CHECK(advice.reason.find("offload:") == std::string::npos);
  const Recommendation tight = recommend(rows, 13 * kGiB, RecommendationGoal::throughput);
  CHECK(tight.strategy == "checkpoint:full");
  CHECK(tight.reason.starts_with("the only one within 13 GiB (offloads aside: the CPU emulates their copies): 124 ms"));
  CHECK(tight.reason.find("nothing needs less memory") == std::string::npos);
  const Recommendation small = recommend(rows, 12 * kGiB, RecommendationGoal::throughput);
  CHECK(small.strategy == "offload:stream");
  CHECK(small.reason.starts_with("the least memory of 2 within 12 GiB"));
  CHECK(small.reason.find("its time is not known, because the CPU emulates the copies") != std::string::npos);
  mark_rows(rows, advice);
  CHECK(rows[0].pareto);
  CHECK_FALSE(rows[2].pareto);
}

TEST_CASE("the choice is made at the longest sequence that fits and not by the cheapest token") {
  std::vector<TrialResultRow> rows = {row("none", 10, 10), row("none", 300, 20), row("checkpoint:full", 400, 12)};
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].sequence = i == 0 ? 1024 : 4096;
    rows[i].measurement.tokens_per_s =
        1000.0 * static_cast<double>(*rows[i].sequence) / rows[i].measurement.step_ms.median;
  }
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "none");
  CHECK(advice.sequence == 4096);
  CHECK(advice.reason ==
        "the fastest of 2 that worked at the longest sequence: 300 ms a step, 20 GiB at the peak; checkpoint:full at "
        "seq 4096 saves 8 GiB for 33 % more time a token");
  CHECK(recommend(rows, 15 * kGiB, RecommendationGoal::throughput).strategy == "checkpoint:full");
  CHECK(recommend(rows, 11 * kGiB, RecommendationGoal::throughput).sequence == 1024);
}

TEST_CASE("the goal memory takes the smallest peak and then the faster trial") {
  const std::vector<TrialResultRow> rows = {row("a", 100, 20), row("b", 150, 10), row("c", 140, 10)};
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::memory);
  CHECK(advice.strategy == "c");
  CHECK(advice.reason == "the least memory of 3 that worked: 140 ms a step, 10 GiB at the peak");
}

TEST_CASE("failed trials and wrong gradients are never recommended") {
  std::vector<TrialResultRow> rows = usual();
  rows[0].measurement.outcome = memtune::result::TrialOutcome::device_oom;
  rows.push_back(row("checkpoint:op", 90, 5));
  rows.back().measurement.outcome = memtune::result::TrialOutcome::mismatch;
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "checkpoint:full");
  CHECK(advice.reason.find("none ends in device_oom") != std::string::npos);
  CHECK(advice.reason.find("checkpoint:op is faster, but its gradients differ") != std::string::npos);
}

TEST_CASE("gradients within the baseline's own noise do not rule out a trial") {
  std::vector<TrialResultRow> rows = usual();
  rows.push_back(row("checkpoint:op", 90, 5));
  rows.back().measurement.gradients = {true, false, 1e-7, "layers.0.wq", "none"};
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "checkpoint:op");
  CHECK(advice.reason == "the fastest of 4 that worked: 90 ms a step, 5 GiB at the peak; nothing needs less memory");
}

TEST_CASE("a NaN step time is never recommended") {
  std::vector<TrialResultRow> rows = {row("none", std::nan(""), 1), row("checkpoint:full", 0, 1)};
  CHECK(recommend(rows, 0, RecommendationGoal::throughput).reason == "no trial worked");
  rows.push_back(row("offload:sync", 5, 100));
  CHECK(recommend(rows, 0, RecommendationGoal::throughput).strategy == "offload:sync");
}

TEST_CASE("batch sizes are compared by the time for the same work") {
  std::vector<TrialResultRow> rows = {row("none", 100, 10), row("none", 150, 18)};
  rows[0].batch = 1, rows[0].measurement.samples_per_s = 10;
  rows[1].batch = 2, rows[1].measurement.samples_per_s = 13.3;
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::throughput);
  CHECK(advice.batch == 2);
  CHECK(advice.reason.find("none at batch 1 saves 8 GiB for 33 % more time a sample") != std::string::npos);
}

TEST_CASE("the Pareto front omits rows that another row beats in time and memory") {
  std::vector<TrialResultRow> rows = usual();
  rows.push_back(row("checkpoint:every=2", 130, 20));  // beaten by checkpoint:full
  rows.push_back(row("offload:sync", 200, 10));        // equal to offload:stream, so neither beats the other
  mark_rows(rows, recommend(rows, 0, RecommendationGoal::throughput));
  CHECK(rows[0].pareto);
  CHECK(rows[1].pareto);
  CHECK(rows[2].pareto);
  CHECK_FALSE(rows[3].pareto);
  CHECK(rows[4].pareto);
  CHECK(rows[0].recommended);
  CHECK_FALSE(rows[1].recommended);
}

TEST_CASE("an unknown goal is refused with the known goals") {
  CHECK_THROWS_WITH_AS(parse_goal("memori"), "unknown goal 'memori'; did you mean 'memory'? Known: throughput, memory",
                       memtune::UsageError);
}

}  // namespace memtune::recommend_test
