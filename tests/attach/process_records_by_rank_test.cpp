// Figures of a group of ranks, computed from synthetic records.
#include "core/measure/attach/process_records_by_rank.h"

#include <doctest/doctest.h>

#include "core/base/bounds.h"

namespace memtune::rank_records_test {

using namespace memtune;
using namespace memtune::attach;

namespace {

StepRecord step(int64_t number, MeasurementPhase phase, double ms, std::vector<double> losses = {1}) {
  StepRecord record;
  record.number = number;
  record.phase = phase;
  record.ms = ms;
  record.losses = std::move(losses);
  return record;
}

TrainingProcessRecords rank(int64_t number, std::vector<StepRecord> steps) {
  TrainingProcessRecords records;
  records.rank = number;
  records.steps = std::move(steps);
  return records;
}

}  // namespace

TEST_CASE("losses of the micro-batches of one step are summed") {
  const std::vector<TrainingProcessRecords> all = {
      rank(0, {step(1, MeasurementPhase::warmup, 1, {0.5, 0.25}), step(2, MeasurementPhase::measured, 1, {1})})};
  result::TrialMeasurement measurement;
  fill_measurement(rank_records_of(all), measurement);
  CHECK(measurement.loss == std::vector<double>{0.75, 1});
}

TEST_CASE("a step with a save is no sample if there are others") {
  std::vector<TrainingProcessRecords> all = {
      rank(0, {step(3, MeasurementPhase::measured, 10), step(4, MeasurementPhase::measured, 50),
               step(5, MeasurementPhase::measured, 11)})};
  all[0].steps[1].save_ms = 40;
  all[0].saves = {{3, 30, 1000}, {3, 10, 500}};
  result::TrialMeasurement measurement;
  fill_measurement(rank_records_of(all), measurement);
  CHECK(measurement.step_ms.samples == std::vector<double>{10, 11});
  const auto saves = save_figures(rank_records_of(all), measurement);
  REQUIRE(saves.size() == 1);
  CHECK(saves[0].saves == 1);
  CHECK(saves[0].bytes == 1500);
  CHECK(saves[0].blocked_ms == 40);
  all[0].steps.erase(all[0].steps.begin());
  all[0].steps.pop_back();
  fill_measurement(rank_records_of(all), measurement);
  CHECK(measurement.step_ms.samples == std::vector<double>{50});
}

TEST_CASE("the bytes of many saves of one step are bounded") {
  std::vector<TrainingProcessRecords> all = {rank(0, {step(3, MeasurementPhase::measured, 10)})};
  for (int i = 0; i < 9000; ++i) all[0].saves.push_back({3, 0, kMaxBytes});
  CHECK(save_figures(rank_records_of(all), {}).front().bytes == kMaxBytes);
}

TEST_CASE("steps that some rank did not take are no samples") {
  const std::vector<TrainingProcessRecords> all = {
      rank(0, {step(3, MeasurementPhase::measured, 10), step(4, MeasurementPhase::measured, 20)}),
      rank(1, {step(3, MeasurementPhase::measured, 15)})};
  result::TrialMeasurement measurement;
  fill_measurement(rank_records_of(all), measurement);
  CHECK(measurement.step_ms.samples == std::vector<double>{15});
}

TEST_CASE("processes without steps are no ranks and a second process of a rank is ignored") {
  std::vector<TrainingProcessRecords> all = {rank(0, {}), rank(1, {step(1, MeasurementPhase::warmup, 1)}),
                                             rank(0, {step(1, MeasurementPhase::warmup, 2)}),
                                             rank(0, {step(1, MeasurementPhase::warmup, 3)})};
  const ProcessRecordsByRank team = rank_records_of(all);
  REQUIRE(team.ranks.size() == 2);
  CHECK(team.ranks[0] == &all[2]);
  CHECK(team.ranks[1] == &all[1]);
  CHECK(team.ignored == 1);
  all[3].done = true;  // it took all its steps, and the earlier one did not
  CHECK(rank_records_of(all).ranks[0] == &all[3]);
  CHECK(rank_records_of(all).ignored == 1);
}

TEST_CASE("traced steps give the tracing overhead and are no samples") {
  const std::vector<TrainingProcessRecords> all = {
      rank(0, {step(3, MeasurementPhase::measured, 100), step(4, MeasurementPhase::between, 300),
               step(5, MeasurementPhase::traced, 104)})};
  result::TrialMeasurement measurement;
  fill_measurement(rank_records_of(all), measurement);
  CHECK(measurement.step_ms.samples == std::vector<double>{100});
  CHECK(measurement.profiler_overhead == doctest::Approx(0.04));
}

}  // namespace memtune::rank_records_test
