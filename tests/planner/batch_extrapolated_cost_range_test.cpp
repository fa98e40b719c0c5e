// Costs of any batch from recordings of two: they equal those that a recording of that batch would give.
#include "core/plan/planner/batch_extrapolated_cost_range.h"

#include <doctest/doctest.h>

#include "core/plan/planner/planner.h"
#include "core/plan/planner/step_costs_with_waits_for_host.h"
#include "tests/planner/costs.h"

namespace memtune::extrapolated_costs_test {

using namespace memtune;
using namespace memtune::test;
using planner::BatchExtrapolatedCostRange;
using planner::BatchSizeAndRecordedCosts;
using planner::Planner;

namespace {

constexpr double kFixedMs = 0.2;  // of each op, at every batch

BatchSizeAndRecordedCosts recorded(int64_t batch) {
  const ProgramFacts facts = decoder_at(batch);
  std::vector<double> ms = decoder_ms(facts);
  for (double& one : ms) one += kFixedMs;
  return {batch, step_of(facts, ms)};
}

}  // namespace

TEST_CASE("two batches give the exact memory of any other and its time if that is linear") {
  const BatchSizeAndRecordedCosts two = recorded(2), four = recorded(4);
  for (const int64_t batch : {1, 2, 3, 4, 6, 16}) {
    CAPTURE(batch);
    const std::optional<BatchExtrapolatedCostRange> paper = planner::costs_at_batch(four, two, batch, 1);
    REQUIRE(paper);
    const BatchSizeAndRecordedCosts real = recorded(batch);
    REQUIRE(paper->likely.values == real.costs.values);
    for (size_t i = 0; i < real.costs.runs.size(); ++i) {
      REQUIRE(paper->likely.runs[i].before_bytes == real.costs.runs[i].before_bytes);
      REQUIRE(paper->likely.runs[i].own_bytes == real.costs.runs[i].own_bytes);
    }
    for (size_t i = 0; i < real.costs.moments.size(); ++i)
      REQUIRE(paper->likely.moments[i].peak_bytes == real.costs.moments[i].peak_bytes);
    CHECK(paper->likely.after_peak_bytes == real.costs.after_peak_bytes);
    CHECK(paper->least.step_ms <= real.costs.step_ms * (1 + 1e-9));
    CHECK(paper->most.step_ms >= real.costs.step_ms * (1 - 1e-9));
    const bool between = batch >= 2 && batch <= 4;
    CHECK((paper->least.step_ms == paper->most.step_ms) == between);
    if (between) CHECK(paper->likely.step_ms == doctest::Approx(real.costs.step_ms));
  }
}

TEST_CASE("plans from costs predicted from two batches equal those from a recording") {
  const BatchSizeAndRecordedCosts two = recorded(2), four = recorded(4), eight = recorded(8);
  const ProgramFacts real = decoder_at(8);
  BatchSizeAndRecordedCosts paper{8, planner::costs_at_batch(two, four, 8, 1)->likely};
  const ProgramFacts facts = planner::facts_at_batch(decoder_at(2), two, paper);
  for (size_t op = 0; op < real.ops.size(); ++op) {
    CHECK(facts.ops[op].output_bytes == real.ops[op].output_bytes);
    CHECK(facts.ops[op].flops == doctest::Approx(real.ops[op].flops));
  }
  const Planner on_paper(facts, paper.costs), on_record(real, eight.costs);
  const int64_t least = on_record.least_memory({}, "").predicted.peak_bytes;
  CHECK(on_paper.least_memory({}, "").predicted.peak_bytes == least);
  const planner::PlanMemoryBudgets limits{(least + on_record.predict({}).peak_bytes) / 2, 0};
  const auto plan = on_paper.plan(limits, "plan");
  REQUIRE(plan);
  CHECK(on_record.predict(plan->plan).peak_bytes == plan->predicted.peak_bytes);
}

TEST_CASE("a step that the host bounds takes as long at a smaller batch") {
  const auto issued = [](int64_t batch) {
    BatchSizeAndRecordedCosts one = recorded(batch);
    one.costs.issue.runs.assign(one.costs.runs.size(), {5, false});
    one.costs.issue.moments.assign(one.costs.moments.size(), {0, false});
    one.costs.step_ms = planner::issue_step(one.costs).step_ms;
    return one;
  };
  const BatchSizeAndRecordedCosts four = issued(4), eight = issued(8);
  for (const int64_t batch : {6, 5}) {
    const auto between = planner::costs_at_batch(four, eight, batch, 1);
    REQUIRE(between);
    CHECK(between->likely.step_ms == doctest::Approx(issued(batch).costs.step_ms));
    CHECK(between->likely.issue == issued(batch).costs.issue);
  }
  const double host_ms = 5.0 * static_cast<double>(four.costs.runs.size());
  CHECK(planner::costs_at_batch(four, eight, 1, 1)->least.step_ms > host_ms);
}

TEST_CASE("micro-batches multiply the time of a step except the optimizer's") {
  BatchSizeAndRecordedCosts two = recorded(2), four = recorded(4);
  for (BatchSizeAndRecordedCosts* one : {&two, &four}) one->costs.after_ms = 7, one->costs.step_ms += 7;
  const double pass_ms = four.costs.step_ms - 7;
  CHECK(planner::costs_at_batch(two, four, 4, 1)->likely.step_ms == doctest::Approx(pass_ms + 7));
  CHECK(planner::costs_at_batch(two, four, 4, 3)->likely.step_ms == doctest::Approx(3 * pass_ms + 7));
  four.costs.passes = 2;
  four.costs.step_ms = 2 * pass_ms + 7;
  CHECK(planner::costs_at_batch(two, four, 4, 3)->likely.step_ms == doctest::Approx(3 * pass_ms + 7));
}

TEST_CASE("fractional bytes per sample are rounded up and the optimizer's times are averaged") {
  BatchSizeAndRecordedCosts two = recorded(2), five = recorded(5);
  two.costs.start_bytes = 100, five.costs.start_bytes = 110;
  CHECK(planner::costs_at_batch(two, five, 3, 1)->likely.start_bytes == 104);
  const double pass_ms = five.costs.step_ms;
  two.costs.after_ms = 6, two.costs.step_ms += 6;
  five.costs.after_ms = 8, five.costs.step_ms += 8;
  CHECK(planner::costs_at_batch(two, five, 5, 1)->likely.step_ms == doctest::Approx(pass_ms + 7));
}

TEST_CASE("recordings with different ops or of the same batch give no costs of others") {
  const BatchSizeAndRecordedCosts two = recorded(2);
  BatchSizeAndRecordedCosts four = recorded(4);
  CHECK_FALSE(planner::costs_at_batch(two, two, 8, 1));
  four.costs.runs[3].op = 4;
  CHECK_FALSE(planner::costs_at_batch(two, four, 8, 1));
  four = recorded(4);
  four.costs.moments.pop_back();
  CHECK_FALSE(planner::costs_at_batch(two, four, 8, 1));
}

}  // namespace memtune::extrapolated_costs_test
