// Samples and tokens per second, from the batches that left the data loaders during each step.
#include "core/measure/attach/throughput.h"

#include <doctest/doctest.h>

namespace memtune::throughput_test {

using namespace memtune;
using namespace memtune::attach;

namespace {

struct Step {
  int64_t batches;
  std::vector<int64_t> rows;  // one per backward
};

// A row has 100 tokens.
TrainingProcessRecords rank(int64_t number, const std::vector<Step>& steps) {
  TrainingProcessRecords records;
  records.rank = number;
  for (const Step& each : steps) {
    StepRecord& step = records.steps.emplace_back();
    step.number = static_cast<int64_t>(records.steps.size());
    step.phase = MeasurementPhase::measured;
    step.batches = each.batches;
    step.rows = each.rows;
    for (const int64_t rows : each.rows) step.tokens.push_back(100 * rows), step.positions.push_back(100 * rows);
  }
  return records;
}

struct Told {
  double samples, tokens;
  std::vector<std::string> notes;
};

// With steps of 500 ms.
Told told(const std::vector<TrainingProcessRecords>& ranks) {
  result::TrialMeasurement measurement;
  measurement.step_ms.median = 500;
  measurement.step_ms.samples = {400, 500, 900};
  std::vector<std::string> notes;
  fill_throughput(rank_records_of(ranks), measurement, notes);
  return {measurement.samples_per_s, measurement.tokens_per_s, notes};
}

}  // namespace

TEST_CASE("a step has one batch per backward whenever the batches left the loader") {
  CHECK(told({rank(0, {{2, {4, 4}}, {2, {4, 4}}})}).samples == 16);
  for (const std::vector<int64_t>& left : {std::vector<int64_t>{2, 0, 2, 0, 2}, {0, 2, 0, 2, 0}, {1, 1, 101, 1, 1}}) {
    std::vector<Step> steps;
    for (const int64_t batches : left) steps.push_back({batches, {4}});
    CHECK(told({rank(0, steps)}).samples == 8);
    CHECK(told({rank(0, steps)}).tokens == 800);
  }
}

TEST_CASE("several backwards of one batch count the batch once") {
  const Step split = {1, {32, 32, 32, 32}};
  CHECK(told({rank(0, {split, split, split})}).samples == 64);
  CHECK(told({rank(0, {split, {101, {32, 32, 32, 32}}, split})}).samples == 64);
}

TEST_CASE("one backward of several batches counts all of them") {
  const Step joined = {4, {4}};
  CHECK(told({rank(0, {joined, joined, joined})}).samples == 32);
  CHECK(told({rank(0, {joined, {0, {4}}, {8, {4}}})}).samples == 32);
  CHECK(told({rank(0, {{4, {4, 4}}, {4, {4, 4}}})}).tokens == 3200);
}

TEST_CASE("the median of varying batch sizes counts and without a batch the throughput is unknown") {
  CHECK(told({rank(0, {{1, {4}}, {1, {4}}, {1, {1}}})}).samples == 8);
  const Told unknown = told({rank(0, {{0, {4}}, {0, {4}}})});
  CHECK(unknown.samples == 0);
  REQUIRE(unknown.notes.size() == 1);
  CHECK(unknown.notes[0].starts_with("how many samples a step has is not known"));
}

TEST_CASE("samples of ranks are summed and unknown if a rank reports none or ranks share the same batches") {
  std::vector<TrainingProcessRecords> both = {rank(0, {{1, {4}}}), rank(1, {{1, {6}}})};
  both[0].data = 7, both[1].data = 8;
  CHECK(told(both).samples == 20);
  CHECK(told(both).notes.empty());
  both[1].data = 7;
  CHECK(told(both).samples == 0);
  CHECK(told(both).notes ==
        std::vector<std::string>{"ranks were fed the same batches: how many samples a step has is not known"});
  both[1] = rank(1, {{1, {}}});
  CHECK(told(both).samples == 0);
}

TEST_CASE("tokens are counted without padding and its share is noted") {
  std::vector<TrainingProcessRecords> one = {rank(0, {{1, {4}}, {1, {4}}})};
  CHECK(told(one).notes.empty());
  for (StepRecord& step : one[0].steps) step.tokens = {300};
  CHECK(told(one).tokens == 600);
  CHECK(told(one).notes ==
        std::vector<std::string>{"padding is 25 % of the positions that the model is given: tokens are "
                                 "counted without it"});
  for (StepRecord& step : one[0].steps) step.tokens = {399};
  CHECK(told(one).notes.empty());
}

TEST_CASE("tokens that vary are divided by the time of their steps") {
  std::vector<TrainingProcessRecords> one = {rank(0, {{1, {4}}, {1, {4}}, {1, {4}}})};
  for (size_t i = 0; i < 3; ++i) one[0].steps[i].tokens = one[0].steps[i].positions = {std::vector{240, 300, 540}[i]};
  CHECK(told(one).tokens == 600);
  CHECK(told(one).notes == std::vector<std::string>{"rows have 60 to 135 positions, the longest in step 3: longer ones "
                                                    "later may need more memory"});
}

TEST_CASE("token counts need tokens in every batch and sample counts need rows") {
  std::vector<TrainingProcessRecords> one = {rank(0, {{1, {4}}, {1, {4}}})};
  one[0].steps[1].tokens[0] = 0;
  CHECK(told(one).samples == 8);
  CHECK(told(one).tokens == 0);
  one[0].steps[1].rows[0] = 0;
  CHECK(told(one).samples == 0);
  CHECK(told({rank(0, {{1, {}}})}).samples == 0);
}

}  // namespace memtune::throughput_test
