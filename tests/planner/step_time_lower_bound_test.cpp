// No plan is predicted faster than the lower bound for its memory, and the bound is not far below what the planner
// finds.
#include "core/plan/planner/step_time_lower_bound.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "core/plan/planner/planner.h"
#include "core/plan/rules/activation_placement_draft.h"
#include "tests/planner/costs.h"
#include "tests/support/samples.h"

namespace memtune::step_time_lower_bound_test {

using namespace memtune;
using namespace memtune::planner;
using namespace memtune::test;

namespace {

// A decoder with random op times. Its backward unpacks some tensors before it frees others.
struct Decoder {
  // `smaller` divides the sizes of its values, which are 16 to 512 MiB.
  Decoder(int blocks, double gb_per_s, std::mt19937& random, int smaller = 1) : facts(decoder(blocks)) {
    for (ProgramOpFacts& op : facts.ops)
      for (int64_t& bytes : op.output_bytes) bytes /= smaller;
    std::vector<double> ms = decoder_ms(facts);
    for (double& one : ms) one *= std::uniform_real_distribution(0.2, 3.0)(random);
    costs = step_of(facts, ms);
    costs.out_gb_per_s = gb_per_s;
    costs.in_gb_per_s = 0.7 * gb_per_s;
    for (size_t i = 1; i + 1 < costs.moments.size(); i += 2)
      if (random() % 4 == 0) swap(costs.moments[i], costs.moments[i + 1]);
  }
  static void swap(plan::RecordedStepCosts::Moment& a, plan::RecordedStepCosts::Moment& b) {
    std::swap(a.kind, b.kind);
    std::swap(a.saved, b.saved);
    std::swap(a.ms, b.ms);
  }
  ProgramFacts facts;
  plan::RecordedStepCosts costs;
};

// The host takes up to 3 times as long as the device to issue an op, and reads some results.
void add_issue_times(plan::RecordedStepCosts& costs, std::mt19937& random) {
  const auto drawn = [&](double ms) {
    return plan::RecordedStepCosts::IssueTime{ms * std::uniform_real_distribution(0.0, 3.0)(random), random() % 8 == 0};
  };
  for (const plan::RecordedStepCosts::Run& run : costs.runs) costs.issue.runs.push_back(drawn(run.ms));
  for (const plan::RecordedStepCosts::Moment& moment : costs.moments) costs.issue.moments.push_back(drawn(moment.ms));
  costs.issue.engine_ms = 0.01;
  costs.issue.copy_ms = 0.001;
}

plan::Plan random_plan(const ProgramFacts& facts, std::mt19937& random) {
  const plan::OpMemoryAccessGraph graph(facts);
  plan::ActivationPlacementDraft draft(facts);
  const unsigned moved = random() % 10, recomputed = random() % 10;
  for (const plan::OpOutputAllocationNode& memory : graph.memories()) {
    const unsigned drawn = random() % 20;
    if (drawn < moved) draft.fill(memory, TensorPlacement::host);
    if (drawn >= moved && drawn < moved + recomputed) draft.fill(memory, TensorPlacement::recompute);
  }
  plan::Plan plan;
  plan.placements = draft.placements();
  plan.transfer.side_stream = random() % 4 != 0;
  plan.nested = random() % 4 == 0;
  return plan;
}

void check(const StepPredictor& model, const StepTimeLowerBound& bound, const plan::Plan& plan) {
  const StepPrediction step = model.predict(plan);
  CAPTURE(step.peak_bytes / kMiB);
  for (const int64_t host_bytes : {int64_t{0}, step.host_peak_bytes}) {
    const auto least_ms = bound.least_ms(step.peak_bytes, host_bytes);
    REQUIRE(least_ms);
    CHECK(*least_ms <= step.step_ms);
  }
}

}  // namespace

TEST_CASE("no plan is predicted faster than the lower bound for its memory") {
  std::mt19937 random(7);
  for (const double gb_per_s : {0.0, 2.0, 20.0, 200.0}) {
    Decoder decoder(3, gb_per_s, random, gb_per_s == 2.0 ? 48 : 1);
    decoder.costs.copy_slowdown = gb_per_s == 20.0 ? 0.3 : gb_per_s == 200.0 ? 1.5 : 0;
    const StepPredictor model(decoder.facts, decoder.costs);
    const StepTimeLowerBound bound(model.tables(), decoder.costs, model.unmodelled(),
                                   plan::TransferSettings().min_bytes);
    CAPTURE(gb_per_s);
    for (const char* strategy : {"none", "checkpoint:full", "checkpoint:full,inputs=host", "checkpoint:full,segment=2",
                                 "checkpoint:cheap", "checkpoint:op", "offload:sync", "offload:stream", "offload:group",
                                 "checkpoint:cheap+offload:stream,fraction=0.4"}) {
      CAPTURE(strategy);
      check(model, bound, plan::make_plan(plan::Strategy::parse(strategy), decoder.facts));
    }
    for (int i = 0; i < 300; ++i) check(model, bound, random_plan(decoder.facts, random));
  }
}

TEST_CASE("no plan is predicted faster than the bound where the device waits for the host") {
  std::mt19937 random(11);
  for (const double gb_per_s : {2.0, 20.0, 200.0}) {
    CAPTURE(gb_per_s);
    Decoder decoder(3, gb_per_s, random);
    decoder.costs.copy_slowdown = gb_per_s == 20.0 ? 0.3 : 0;
    add_issue_times(decoder.costs, random);
    const StepPredictor model(decoder.facts, decoder.costs);
    REQUIRE(model.tables().idle_ms > 0);
    const StepTimeLowerBound bound(model.tables(), decoder.costs, model.unmodelled(),
                                   plan::TransferSettings().min_bytes);
    for (int i = 0; i < 300; ++i) check(model, bound, random_plan(decoder.facts, random));
  }
}

TEST_CASE("what the device does more while it would wait for the host does not raise the bound") {
  std::mt19937 random(5);
  Decoder decoder(3, 20, random);
  decoder.costs.issue.runs.resize(decoder.costs.runs.size());
  decoder.costs.issue.moments.resize(decoder.costs.moments.size());
  for (size_t i = decoder.costs.moments.size() - 3; i < decoder.costs.moments.size(); ++i)
    if (decoder.costs.moments[i].kind == plan::RecordedStepCosts::Moment::Kind::unpack)
      decoder.costs.issue.moments[i].ms = 20 * decoder.costs.step_ms;  // the host is late with the last of backward
  const StepPredictor model(decoder.facts, decoder.costs);
  const StepTimeLowerBound bound(model.tables(), decoder.costs, model.unmodelled(), plan::TransferSettings().min_bytes);
  for (int i = 0; i < 100; ++i) check(model, bound, random_plan(decoder.facts, random));
}

TEST_CASE("the bound equals the step if nothing has to be freed and is absent if nothing can be") {
  std::mt19937 random(1);
  const Decoder decoder(2, 20, random);
  const StepPredictor model(decoder.facts, decoder.costs);
  const StepTimeLowerBound bound(model.tables(), decoder.costs, model.unmodelled(), plan::TransferSettings().min_bytes);
  CHECK(bound.least_ms(model.predict({}).peak_bytes, 0).value() == doctest::Approx(decoder.costs.step_ms));
  CHECK_FALSE(bound.least_ms(decoder.costs.start_bytes, 0));
}

TEST_CASE("the bound is computed quickly if each sum adds the two sums before it") {
  Builder builder;
  int before = builder.op("aten::linear", {builder.input()});
  int last = builder.measured(64 * kMiB, false, kMiB);
  for (int i = 0; i < 80; ++i) {
    builder.op("aten::add", {std::exchange(before, last), last});
    last = builder.measured(64 * kMiB, i == 79);
  }
  builder.op("aten::linear", {last});
  builder.measured(kMiB, false, kMiB);
  const auto costs = step_of(builder.facts, decoder_ms(builder.facts));
  const StepPredictor model(builder.facts, costs);
  const StepTimeLowerBound bound(model.tables(), costs, model.unmodelled(), plan::TransferSettings().min_bytes);
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) check(model, bound, random_plan(builder.facts, random));
}

TEST_CASE("costs with less memory than their values take have a bound too") {
  std::mt19937 random(2);
  Decoder decoder(2, 20, random);
  for (auto& run : decoder.costs.runs) run.before_bytes = run.own_bytes = 0;
  for (auto& moment : decoder.costs.moments) moment.before_bytes = moment.peak_bytes = 0;
  const StepPredictor model(decoder.facts, decoder.costs);
  const StepTimeLowerBound bound(model.tables(), decoder.costs, model.unmodelled(), plan::TransferSettings().min_bytes);
  CHECK(bound.least_ms(INT64_MAX, 0).value() == doctest::Approx(decoder.costs.step_ms));
}

TEST_CASE("planned steps are near the bound and a smaller budget never lowers it") {
  for (const double gb_per_s : {5.0, 25.0}) {
    const auto facts = decoder(12);
    auto costs = step_of(facts, decoder_ms(facts));
    costs.out_gb_per_s = costs.in_gb_per_s = gb_per_s;
    const Planner planner(facts, costs);
    const int64_t most = planner.predict({}).peak_bytes, least = planner.least_memory({}, "").predicted.peak_bytes;
    double before = 0;
    for (int i = 0; i < 7; ++i) {
      if (!tests::is_sampled(i)) continue;
      const auto planned = planner.plan({most - (most - least) * i / 8, 0}, "");
      REQUIRE(planned);
      CHECK(planned->least_ms >= before);
      CHECK(planned->least_ms <= planned->predicted.step_ms);
      CHECK(planned->predicted.step_ms < 1.06 * planned->least_ms);
      before = planned->least_ms;
    }
  }
}

}  // namespace memtune::step_time_lower_bound_test
