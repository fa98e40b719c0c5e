// Trials of several batch sizes or sequence lengths are compared by the time for the same work. All reports must use
// the same unit of work.
#include "core/answer/result/work_normalized_trial_comparator.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/result/rows.h"

namespace memtune::ranking_test {

using namespace memtune::result;

namespace {

std::vector<std::string> order(const std::vector<TrialResultRow>& rows) {
  std::vector<std::string> names;
  for (const TrialResultRow* row : ranked(rows)) names.push_back(label(*row));
  return names;
}

}  // namespace

TEST_CASE("a step is the unit of work if batch and sequence are the same") {
  const std::vector<TrialResultRow> rows = {row("slow", 300), row("fast", 100)};
  const WorkNormalizedTrialComparator ranking(rows);
  CHECK(ranking.work() == WorkUnit::step);
  CHECK(ranking.title() == std::string("step ms"));
  CHECK(ranking.time(rows[0]) == 300);
  CHECK(order(rows) == std::vector<std::string>{"fast", "slow"});
}

TEST_CASE("a token is the unit of work with several sequence lengths") {
  const std::vector<TrialResultRow> rows = two_lengths();
  const WorkNormalizedTrialComparator ranking(rows);
  CHECK(ranking.work() == WorkUnit::token);
  CHECK(ranking.title() == std::string("µs a token"));
  CHECK(ranking.time(rows[0]) == doctest::Approx(97.65625));  // 100 ms / 1024
  CHECK(ranking.time(rows[1]) == doctest::Approx(73.2421875));
  CHECK(ranking.faster(rows[1], rows[0]));
  CHECK(order(rows) == std::vector<std::string>{"none, seq 4096", "none, seq 1024"});
}

TEST_CASE("a sample is the unit of work with several batch sizes and no tokens") {
  const std::vector<TrialResultRow> rows = two_batches();
  const WorkNormalizedTrialComparator ranking(rows);
  CHECK(ranking.work() == WorkUnit::sample);
  CHECK(ranking.title() == std::string("ms a sample"));
  CHECK(ranking.time(rows[0]) == doctest::Approx(100));
  CHECK(ranking.time(rows[1]) == doctest::Approx(75));
  CHECK(order(rows) == std::vector<std::string>{"none, batch 2", "none, batch 1"});
}

TEST_CASE("steps with more samples are more work on the same axes but padding is not") {
  std::vector<TrialResultRow> rows = {row("own", 100), row("batch-x2", 150)};
  for (TrialResultRow& row : rows) row.command = {"train"};
  rows[0].measurement.samples_per_s = 40, rows[0].measurement.tokens_per_s = 4000;
  rows[1].measurement.samples_per_s = 8 / 0.15, rows[1].measurement.tokens_per_s = 8 * 100 / 0.15;
  TrialRoundTimesAndMachineLoad& round = rows[1].measurement.rounds.emplace_back();
  round.step_ms = rows[1].measurement.step_ms, round.base = "own", round.base_ms = 100;
  const WorkNormalizedTrialComparator ranking(rows);
  CHECK(ranking.work() == WorkUnit::token);
  CHECK(ranking.time(rows[1]) == doctest::Approx(187.5));
  CHECK(ranking.ratio(rows[1], rows[0]).value == doctest::Approx(0.75));
  CHECK(ranking.faster(rows[1], rows[0]));
  rows[1].measurement.samples_per_s = 4 / 0.15, rows[1].measurement.tokens_per_s = 4 * 120 / 0.15;
  CHECK(WorkNormalizedTrialComparator(rows).work() == WorkUnit::step);
  CHECK(WorkNormalizedTrialComparator(rows).ratio(rows[1], rows[0]).value == doctest::Approx(1.5));
}

TEST_CASE("tokens count only if all trials have them and failed trials are ignored") {
  std::vector<TrialResultRow> rows = two_lengths();
  rows[0].measurement.tokens_per_s = 0;
  CHECK(WorkNormalizedTrialComparator(rows).work() == WorkUnit::sample);
  rows[0].measurement.outcome = TrialOutcome::device_oom;
  CHECK(WorkNormalizedTrialComparator(rows).work() ==
        WorkUnit::step);  // one trial is left, so its length does not matter
  rows[1].measurement.outcome = TrialOutcome::crash;
  CHECK(WorkNormalizedTrialComparator(rows).work() == WorkUnit::step);
}

TEST_CASE("equally fast rows are ordered by peak and equally small rows by time") {
  std::vector<TrialResultRow> rows = {row("a", 100, 20), row("b", 100, 10), row("c", 90, 20)};
  const WorkNormalizedTrialComparator ranking(rows);
  CHECK(ranking.faster(rows[1], rows[0]));
  CHECK(ranking.smaller(rows[2], rows[0]));
  CHECK(order(rows) == std::vector<std::string>{"c", "b", "a"});
}

TEST_CASE("a NaN time ranks after all others and failed trials follow in their order") {
  std::vector<TrialResultRow> rows = {row("z", 1), row("unknown", std::nan("")), row("a", 1), row("slow", 500)};
  rows[0].measurement.outcome = TrialOutcome::timeout;
  rows[2].measurement.outcome = TrialOutcome::crash;
  CHECK(order(rows) == std::vector<std::string>{"slow", "unknown", "z", "a"});
  CHECK_FALSE(usable(rows[1].measurement));
  CHECK(std::isinf(work_time(rows[1].measurement, WorkUnit::step)));
}

}  // namespace memtune::ranking_test
