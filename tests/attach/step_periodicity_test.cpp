// Steps that differ from the others: samples of the step time, and what is reported.
#include <doctest/doctest.h>

#include "core/measure/attach/process_records_by_rank.h"
#include "core/measure/attach/step_period.h"

namespace memtune::step_period_test {

using namespace memtune;
using namespace memtune::attach;

namespace {

// Two steps of warm-up, then measured ones. A long step runs the model 20 times without gradients, outside of its
// passes.
TrainingProcessRecords train(const std::vector<double>& step_ms, StepPeriodicityRecord period) {
  TrainingProcessRecords records;
  for (const double ms : step_ms) {
    StepRecord& step = records.steps.emplace_back();
    step.number = static_cast<int64_t>(records.steps.size());
    step.phase = step.number <= 2 ? MeasurementPhase::warmup : MeasurementPhase::measured;
    if (step.number > 1) step.ms = ms;
    step.losses = {1};
    if (ms > 100) step.without_gradients = 20, step.outside_ms = ms - 10;
  }
  records.period = std::move(period);
  return records;
}

result::TrialMeasurement measured(const TrainingProcessRecords& records) {
  result::TrialMeasurement measurement;
  fill_measurement(rank_records_of({&records, 1}), measurement);
  return measurement;
}

std::string text(const TrainingProcessRecords& records) {
  std::vector<std::string> notes;
  add_notes(rank_records_of({&records, 1}), notes);
  REQUIRE(notes.size() == 1);
  return notes[0];
}

const std::vector<double> kSteps = {410, 10, 11, 9, 410, 10, 12, 8, 430, 10};

}  // namespace

TEST_CASE("the time of a step is the mean over whole periods") {
  const TrainingProcessRecords records = train(kSteps, {4, {1, 5, 9}});
  const result::TrialMeasurement m = measured(records);
  CHECK(m.step_ms.samples == std::vector<double>{110, 115});
  CHECK(m.step_ms.median == 112.5);
  CHECK(m.period.steps == 4);
  CHECK(m.period.median_ms == 10.5);
  CHECK(m.period.longest_ms == 430);
  CHECK(text(records) ==
        "1 of 4 steps takes 420 ms, the others 10 ms. What takes longer: work outside of forward, backward and "
        "update: 20 runs of the model without gradients (evaluation, generation). The time of a step is the mean over "
        "2 periods");
}

TEST_CASE("a sample of a period has the steps with saves, without their saves") {
  TrainingProcessRecords records = train(kSteps, {4, {5, 9}});
  records.steps[5].save_ms = 4;
  CHECK(measured(records).step_ms.samples == std::vector<double>{109, 115});
  records.period.reset();
  CHECK(measured(records).step_ms.samples.size() == 7);
}

TEST_CASE("steps that differ without a period are averaged too") {
  const TrainingProcessRecords records = train(kSteps, {0, {5, 9}});
  CHECK(measured(records).step_ms.samples == std::vector<double>{110, 115});
  CHECK(text(records).starts_with("steps 5, 9 take 420 ms, in no period, the others 10 ms."));
  CHECK(text(records).ends_with("The time of a step is the mean over 4 steps"));
}

TEST_CASE("one step that differs is reported and is not in the time of a step") {
  const TrainingProcessRecords records = train({10, 10, 11, 9, 410, 10, 12}, {0, {5}});
  CHECK(measured(records).step_ms.median == 11);
  CHECK(measured(records).period.steps == 0);
  CHECK(text(records).starts_with("step 5 takes 410 ms, the others 10 ms."));
  CHECK(text(records).ends_with("take more --steps"));
  CHECK(text(train({410, 10, 11, 9, 10, 10, 12}, {0, {1}})) ==
        "before step 1 the model ran 20 times without gradients (evaluation, generation), and before none of the other "
        "6 steps: its time is in no step; more --steps would show the next one");
}

TEST_CASE("a period that was not measured to its end gives no mean") {
  CHECK(measured(train({410, 10, 11, 9, 410, 10, 12}, {8, {1, 5}})).step_ms.samples.size() == 5);
}

TEST_CASE("the longer steps are named by what fills them") {
  TrainingProcessRecords records = train({10, 10, 30, 10, 30, 10}, {2, {3, 5}});
  CHECK(text(records).find("What takes longer: longer passes.") != std::string::npos);
  records.steps[2].losses = records.steps[4].losses = {1, 1};
  CHECK(text(records).find("more backward passes") != std::string::npos);
  records.steps[2].outside_ms = records.steps[4].outside_ms = 20;
  CHECK(text(records).find("work outside of forward, backward and update.") != std::string::npos);
  records.steps[2].wait_ms = records.steps[4].wait_ms = 18;
  std::vector<std::string> notes;
  add_notes(rank_records_of({&records, 1}), notes);
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] ==
        "a step waits 9.0 ms of 20 ms for its batches: more workers of the DataLoader (num_workers) load "
        "them ahead");
  CHECK(notes[1].find("What takes longer: waiting for a batch.") != std::string::npos);
}

TEST_CASE("trained tensors without a gradient are reported and counted") {
  TrainingProcessRecords records = train({10, 10, 10}, {});
  records.period.reset();
  records.gradients = {20, 16, {"a", "b", "c"}};
  CHECK(text(records) == "16 of 20 trained tensors have no gradient at their first update: a, b, c, ...");
  CHECK(measured(records).tensors_without_gradient == 16);
  CHECK(measured(records).trained_tensors == 20);
}

TEST_CASE("losses are listed per backward and without the script's factors") {
  TrainingProcessRecords records = train({10, 10, 10}, {});
  records.period.reset();
  records.steps[1].losses = {2, 4};
  CHECK(measured(records).loss == std::vector<double>{1, 6, 1});
  CHECK(measured(records).loss_per_backward == std::vector<std::vector<double>>{{1}, {2, 4}, {1}});
  CHECK(measured(records).loss_unscaled.empty());
  records.steps[1].unscaled = {20, 40};
  CHECK(measured(records).loss_unscaled == std::vector<double>{1, 30, 1});
}

}  // namespace memtune::step_period_test
