// Growth from step to step: a leak, longer batches, and noise, told from each other.
#include "core/measure/attach/memory_growth.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace memtune::memory_growth_test {

using namespace memtune::attach;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// One step for each amount of positions, the first two of the warm-up. `held`: MiB at its end.
template <typename Held>
TrainingProcessRecords train(const std::vector<int64_t>& positions, Held held) {
  TrainingProcessRecords records;
  records.cuda = true;
  for (size_t i = 0; i < positions.size(); ++i) {
    StepRecord step;
    step.number = static_cast<int64_t>(i) + 1;
    step.phase = i < 2 ? MeasurementPhase::warmup : MeasurementPhase::measured;
    step.ms = 10;
    step.held_bytes = static_cast<int64_t>(held(step.number, positions[i])) * kMiB;
    step.allocated_bytes = step.reserved_bytes = 4000 * kMiB;
    step.rows = {1};
    step.tokens = step.positions = {positions[i]};
    records.steps.push_back(step);
  }
  return records;
}

const std::vector<int64_t> kAlike(9, 1024);
const std::vector<int64_t> kMixed = {512, 768, 1024, 512, 2048, 768, 512, 1536, 640};
const std::vector<int64_t> kLonger = {128, 256, 384, 512, 640, 768, 896, 1024, 1152};

}  // namespace

TEST_CASE("a leak grows by the same in each step, whatever the batch") {
  for (const auto& positions : {kAlike, kMixed}) {
    const auto growth =
        growth_of(train(positions, [](int64_t step, int64_t amount) { return 1000 + 40 * step + amount / 128; }));
    CHECK(growth.grows);
    CHECK(growth.steps == 7);
    CHECK(growth.bytes_per_step == doctest::Approx(40 * kMiB).epsilon(0.01));
    CHECK(growth.low <= growth.bytes_per_step);
    CHECK(growth.high >= growth.bytes_per_step);
    CHECK(growth.high - growth.low < 2 * kMiB);
  }
}

TEST_CASE("what grows with the batch's length is no leak") {
  const auto by_length = [](int64_t, int64_t amount) { return 1000 + amount / 8; };
  const auto mixed = growth_of(train(kMixed, by_length));
  CHECK_FALSE(mixed.grows);
  CHECK(mixed.bytes_per_position == doctest::Approx(kMiB / 8).epsilon(0.01));
  const auto longer = growth_of(train(kLonger, by_length));
  CHECK_FALSE(longer.grows);  // steps and lengths cannot be told from each other
  CHECK(longer.bytes_per_step == doctest::Approx(16 * kMiB));
}

TEST_CASE("noise, one allocation and few steps are no leak") {
  CHECK_FALSE(growth_of(train(kAlike, [](int64_t step, int64_t) { return 1000 + 3 * (step % 3); })).grows);
  CHECK_FALSE(growth_of(train(kAlike, [](int64_t step, int64_t) { return step < 6 ? 1000 : 1040; })).grows);
  CHECK(growth_of(train(kAlike, [](int64_t step, int64_t) { return 1000 + 40 * (step / 2); })).grows);
  CHECK(growth_of(train({1, 1, 1, 1, 1, 1}, [](int64_t step, int64_t) { return 1000 + 40 * step; })).steps == 0);
}

TEST_CASE("the kind and the line that grew are named, and when the device is full") {
  TrainingProcessRecords records = train(kAlike, [](int64_t step, int64_t) { return 1000 + 40 * step; });
  StepEndMemoryBreakdown first, last;
  first.parameters_bytes = last.parameters_bytes = 100 * kMiB;
  first.rest_bytes = 10 * kMiB;
  last.rest_bytes = 290 * kMiB;
  first.lines = {{"a/train.py", 3, "f", "", "x = y", 10 * kMiB, 1}};
  last.lines = {{"a/train.py", 3, "f", "", "x = y", 12 * kMiB, 1},
                {"a/train.py", 9, "f", "", "kept.append(loss)", 278 * kMiB, 7}};
  records.held = {first, last};
  const auto growth = growth_of(records);
  CHECK(growth.owner == "rest");
  CHECK(growth.line.line == 9);
  CHECK(growth.line.bytes == 278 * kMiB);
  const std::string text = growth_text(growth, 8000 * kMiB, 4000 * kMiB);
  CHECK(text.starts_with("memory grows by 40 MiB in each step (95 %: 40 MiB to 40 MiB, over 7 steps)"));
  CHECK(text.find("train.py:9 `kept.append(loss)`") != std::string::npos);
  CHECK(text.find("is full after 100 more steps") != std::string::npos);
  records.held[1].rest_bytes = 10 * kMiB;
  records.held[1].gradients_bytes = 280 * kMiB;
  CHECK(growth_of(records).owner == "gradients");
  CHECK(growth_text(growth_of(records), 0, 0).ends_with("most of them gradients"));
}

TEST_CASE("a peak of the longest batch is said to be its") {
  TrainingProcessRecords records = train(kMixed, [](int64_t, int64_t) { return 1000; });
  for (StepRecord& step : records.steps) step.allocated_bytes = (step.number < 5 ? 2000 : 4000) * kMiB;
  CHECK(longest_batch_text(records).starts_with(
      "the peak is that of step 5, whose batch of 2048 positions is the largest (the smallest has 512)"));
  records.steps[3].allocated_bytes = 4000 * kMiB;  // a step with a shorter batch
  CHECK(longest_batch_text(records) == "");
  CHECK(longest_batch_text(train(kAlike, [](int64_t, int64_t) { return 1000; })) == "");
}

TEST_CASE("retries and many free pieces are reported with the setting that changes them") {
  TrainingProcessRecords records = train(kAlike, [](int64_t, int64_t) { return 1000; });
  CHECK(fragmentation_text(records) == "");
  records.steps.back().segments = 30;
  records.steps.back().reserved_bytes = 4400 * kMiB;
  CHECK(fragmentation_text(records) == "");
  records.steps.back().reserved_bytes = 4401 * kMiB;
  CHECK(fragmentation_text(records).starts_with("PyTorch reserved 401 MiB more than tensors held"));
  CHECK(fragmentation_text(records).find("expandable_segments:True") != std::string::npos);
  records.steps.back().reserved_bytes = 4000 * kMiB;
  records.steps[1].retries = 2;
  for (size_t i = 2; i < records.steps.size(); ++i) records.steps[i].retries = 5;
  CHECK(allocator_retries(records) == 3);
  CHECK(fragmentation_text(records).find("gave segments back 3 times") != std::string::npos);
}

}  // namespace memtune::memory_growth_test
