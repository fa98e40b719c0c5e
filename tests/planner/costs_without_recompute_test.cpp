// Costs of a step with recomputation are converted to those of the step that keeps everything, on numbers that can be
// checked by hand.
//
//   v0 = op0()   v1 = op1(v0)   v2 = op2(v1), 100 bytes each; loss = op3(v2)
//
// Each op saves what it reads. Its work space is 20 bytes in forward and 50 in backward. Unmodelled memory is 1000.
#include "core/plan/planner/costs_without_recompute.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/plan/planner/step_predictor.h"

namespace memtune::costs_without_recompute_test {

using namespace memtune;
using plan::RecordedStepCosts;
using plan::TensorPlacement;
using Kind = RecordedStepCosts::Moment::Kind;

namespace {

constexpr int kLoss = 3;

plan::ProgramFacts facts() {
  plan::ProgramFacts facts;
  for (int i = 0; i <= kLoss; ++i) {
    plan::ProgramOpFacts& op = facts.ops.emplace_back();
    op.block = i / 2;
    op.outputs = {i};
  }
  return facts;
}

// `forward`: allocated bytes when each op starts. `backward`: allocated bytes when backward has unpacked v2, v1 and v0.
RecordedStepCosts recorded(const std::vector<int64_t>& forward, const std::vector<int64_t>& backward) {
  RecordedStepCosts costs;
  for (int i = 0; i <= kLoss; ++i) {
    const int64_t made = i == kLoss ? 0 : 100;
    costs.values.push_back({.run = i, .bytes = made});
    costs.runs.push_back({.op = i, .ms = 1, .before_bytes = forward[i], .own_bytes = made + 20, .makes = {i}});
    if (i == 0) continue;
    costs.runs[i].reads = {i - 1};
    costs.runs[i].saves = {i - 1};
    costs.saved.push_back({.value = i - 1, .run = i});
  }
  for (int saved = kLoss - 1; saved >= 0; --saved) {
    const int64_t held = backward[kLoss - 1 - saved];
    costs.moments.push_back({Kind::unpack, saved, 2, 0, held, held + 50});
    costs.moments.push_back({Kind::end, saved, 0, 0, held, held - 100});
  }
  costs.before_peak_bytes = backward.front();
  costs.after_peak_bytes = 1000;
  costs.step_ms = 10;
  return costs;
}

RecordedStepCosts everything_kept() { return recorded({1000, 1100, 1200, 1300}, {1300, 1200, 1100}); }

// v1 is dropped after op2 and recomputed from v0 before backward unpacks it. 1100 bytes are allocated then.
RecordedStepCosts v1_again(double rerun_ms) {
  RecordedStepCosts costs = recorded({1000, 1100, 1200, 1200}, {1200, 1200, 1100});
  costs.plan.placements = {{1, "", {TensorPlacement::recompute}, TensorPlacement::keep}};
  costs.rerun_ms = rerun_ms;
  costs.step_ms += rerun_ms;
  return costs;
}

}  // namespace

TEST_CASE("costs with everything kept stay unchanged") {
  CHECK(planner::costs_without_recompute(facts(), everything_kept()) == everything_kept());
}

TEST_CASE("a step with a recomputed value gives the costs of the step that keeps it") {
  CHECK(planner::costs_without_recompute(facts(), v1_again(1)) == everything_kept());
}

TEST_CASE("recompute time is not part of the step but predicts that of another plan") {
  const plan::ProgramFacts program = facts();
  const RecordedStepCosts recorded = v1_again(1.5), kept = planner::costs_without_recompute(program, recorded);
  CHECK(kept.step_ms == doctest::Approx(10));
  CHECK(kept.rerun_ratio == doctest::Approx(1.5));
  const planner::StepPredictor model(program, kept);
  CHECK(model.predict({}).step_ms == doctest::Approx(10));
  CHECK(model.predict(recorded.plan).step_ms == doctest::Approx(11.5));
  CHECK(model.predict(recorded.plan).recompute_ms == doctest::Approx(1.5));
  CHECK(model.predict({}).peak_bytes == 1350);
  CHECK(model.predict(recorded.plan).peak_bytes == 1320);
}

TEST_CASE("every micro-batch of a step recomputed the value") {
  RecordedStepCosts costs = v1_again(1);
  costs.passes = 2;
  costs.step_ms *= 2;
  CHECK(planner::costs_without_recompute(facts(), costs).step_ms == doctest::Approx(20));
}

}  // namespace memtune::costs_without_recompute_test
