// The part of a recorded step that does not depend on the batch, and costs of another batch from one recording.
#include "core/plan/planner/fixed_costs.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/plan/planner/batch_extrapolated_cost_range.h"
#include "core/plan/planner/planner.h"
#include "core/record/trace/private_save.h"
#include "tests/planner/costs.h"

namespace memtune::fixed_costs_test {

using namespace memtune;
using namespace memtune::test;
using Kind = plan::RecordedStepCosts::Moment::Kind;

namespace {

constexpr int64_t kGradient = 3 * kMiB;  // of each op's parameters
constexpr int64_t kFlow = kMiB / 2;      // per sample, between two ops' backwards

// After each unpack, a parameter gradient stays when the unpacked tensor is freed, and so does the gradient that flows
// on. Work space of ops grows with the batch.
plan::RecordedStepCosts recorded(int64_t batch, bool tells_gradients = true) {
  const ProgramFacts facts = decoder_at(batch);
  plan::RecordedStepCosts costs = step_of(facts, decoder_ms(facts));
  for (plan::RecordedStepCosts::Run& run : costs.runs) {
    const int64_t made = run.makes.empty() ? 0 : costs.values[run.makes[0]].bytes;
    run.own_bytes = made + batch * kMiB;
  }
  int64_t gradients = 0;
  for (plan::RecordedStepCosts::Moment& moment : costs.moments) {
    const bool unpacks = moment.kind == Kind::unpack;
    if (unpacks) moment.peak_bytes = moment.before_bytes;
    // When an unpacked tensor is freed, the new gradient exists but is not yet the parameter's.
    costs.gradient_bytes.push_back(unpacks ? gradients : gradients - kGradient);
    moment.before_bytes += gradients + batch * kFlow;
    if (unpacks) gradients += kGradient;
    moment.peak_bytes += gradients + batch * kFlow;
  }
  costs.gradient_bytes.push_back(gradients);
  if (!tells_gradients) costs.gradient_bytes.clear();
  costs.after_peak_bytes += gradients;
  costs.after_ms = 5;
  costs.step_ms += 5;
  return costs;
}

plan::RecordedStepCosts from_one(int64_t batch, const plan::RecordedStepCosts& costs, int64_t wanted) {
  const plan::RecordedStepCosts fixed = planner::fixed_costs(decoder_at(batch), costs);
  return planner::costs_at_batch({batch, costs}, {0, fixed}, wanted, 1)->likely;
}

}  // namespace

TEST_CASE("one batch gives the memory of any other with fixed parameter gradients") {
  for (const int64_t batch : {1, 2, 8}) {
    CAPTURE(batch);
    const plan::RecordedStepCosts paper = from_one(4, recorded(4), batch), real = recorded(batch);
    REQUIRE(paper.values == real.values);
    for (size_t i = 0; i < real.runs.size(); ++i) {
      REQUIRE(paper.runs[i].before_bytes == real.runs[i].before_bytes);
      REQUIRE(paper.runs[i].own_bytes == real.runs[i].own_bytes);
    }
    for (size_t i = 0; i < real.moments.size(); ++i) {
      CAPTURE(i);
      REQUIRE(paper.moments[i].before_bytes == real.moments[i].before_bytes);
      REQUIRE(paper.moments[i].peak_bytes == real.moments[i].peak_bytes);
    }
    CHECK(paper.before_peak_bytes == real.before_peak_bytes);
    CHECK(paper.start_bytes == real.start_bytes);
    CHECK(paper.step_ms == doctest::Approx(real.step_ms));
  }
}

TEST_CASE("a time of another batch is between the recorded and the proportional one") {
  const plan::RecordedStepCosts four = recorded(4);
  const plan::RecordedStepCosts fixed = planner::fixed_costs(decoder_at(4), four);
  const double pass_ms = four.step_ms - 5;
  for (const int64_t batch : {1, 16}) {
    CAPTURE(batch);
    const auto paper = planner::costs_at_batch({0, fixed}, {4, four}, batch, 1);
    const double share_ms = pass_ms * static_cast<double>(batch) / 4;
    CHECK(paper->likely.step_ms == doctest::Approx(share_ms + 5));
    CHECK(paper->least.step_ms == doctest::Approx(std::min(share_ms, pass_ms) + 5));
    CHECK(paper->most.step_ms == doctest::Approx(std::max(share_ms, pass_ms) + 5));
  }
}

TEST_CASE("without recorded gradients a predicted peak is between those of both batches") {
  const plan::RecordedStepCosts four = recorded(4, /*tells_gradients=*/false);
  const plan::RecordedStepCosts paper = from_one(4, four, 8), real = recorded(8, /*tells_gradients=*/false);
  for (size_t i = 0; i < real.moments.size(); ++i) {
    CHECK(paper.moments[i].peak_bytes <= real.moments[i].peak_bytes);
    CHECK(paper.moments[i].peak_bytes >= four.moments[i].peak_bytes);
  }
  CHECK(paper.before_peak_bytes <= real.before_peak_bytes);
}

TEST_CASE("values that depend on no program input are fixed and a size is no input") {
  ProgramFacts facts = decoder_at(4);
  plan::RecordedStepCosts costs = recorded(4);
  const plan::RecordedStepCosts all = planner::fixed_costs(facts, costs);
  const auto first = static_cast<size_t>(costs.runs.front().makes.at(0));
  REQUIRE(all.values[first].bytes == 0);
  facts.ops.front().op_class = plan::OpClass::host;  // reads a size
  for (plan::ProgramOpFacts& op : facts.ops)
    std::erase_if(op.inputs, [&](int input) { return facts.owner[input] < 0; });
  for (const plan::RecordedStepCosts::Value& value : planner::fixed_costs(facts, costs).values) CHECK(value.bytes > 0);
}

TEST_CASE("plans from costs predicted from one batch equal those from a recording") {
  const plan::RecordedStepCosts two = recorded(2), paper = from_one(2, two, 8);
  const ProgramFacts facts = planner::facts_at_batch(decoder_at(2), {2, two}, {8, paper}), real = decoder_at(8);
  const planner::Planner on_paper(facts, paper), on_record(real, recorded(8));
  const int64_t least = on_record.least_memory({}, "").predicted.peak_bytes;
  CHECK(on_paper.least_memory({}, "").predicted.peak_bytes == least);
  const auto plan = on_paper.plan({(least + on_record.predict({}).peak_bytes) / 2, 0}, "plan");
  REQUIRE(plan);
  CHECK(on_record.predict(plan->plan).peak_bytes == plan->predicted.peak_bytes);
}

}  // namespace memtune::fixed_costs_test
