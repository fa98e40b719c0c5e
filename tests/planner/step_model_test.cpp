// Steps on paper, on numbers that can be followed by hand.
//
//   v0 = op0(outside)   v1 = op1(v0)   v2 = op2(v1)   v3 = op3(v2), 100 bytes each; loss = op4(v3)
//
// Each op saves what it reads; 20 bytes more while an op runs forward, 50 while it runs backward. Beside it are 1000.
#include "core/planner/step_model.h"

#include <doctest/doctest.h>

#include <string>

#include "core/base/private_output.h"

using namespace memtune;
using config::Place;
using config::StepCosts;
using planner::StepModel;
using planner::StepPrediction;

namespace {

constexpr int kOps = 5;
using Kind = StepCosts::Moment::Kind;

struct Step {
  config::ProgramFacts facts;
  StepCosts costs;
  StepPrediction predict(const config::Plan& plan) const { return StepModel(facts, costs).predict(plan); }
};

// Op i is in block i / 2; the last is behind the blocks.
Step chain() {
  Step step;
  for (int i = 0; i < kOps; ++i) {
    config::OpFacts op;
    op.name = "op" + std::to_string(i);
    op.block = i / 2;
    op.outputs = {i};
    op.after_blocks = i == kOps - 1;
    if (op.after_blocks) op.block = -1;
    step.facts.ops.push_back(op);
    const int64_t made = op.after_blocks ? 0 : 100;
    step.costs.values.push_back({.run = i, .bytes = made});
    StepCosts::Run run{.op = i, .ms = 1, .before_bytes = 1000 + 100 * i, .own_bytes = made + 20, .makes = {i}};
    if (i > 0) {
      run.reads = {i - 1};
      run.saves = {i - 1};
      step.costs.saved.push_back({.value = i - 1, .run = i});
    }
    step.costs.runs.push_back(run);
  }
  for (int saved = kOps - 2; saved >= 0; --saved) {
    const int64_t before = 1100 + 100 * saved;
    step.costs.moments.push_back({Kind::unpack, saved, 2, 0, before, before + 50});
    step.costs.moments.push_back({Kind::end, saved, 0, 0, before, before});
  }
  step.costs.before_peak_bytes = 1400;
  step.costs.after_peak_bytes = 1000;
  step.costs.step_ms = 13;
  return step;
}

config::Plan placed(std::initializer_list<std::pair<int, Place>> outputs) {
  config::Plan plan;
  plan.transfer.min_bytes = 0;
  plan.saved_min_bytes = 0;
  for (const auto& [op, place] : outputs) {
    config::OpPlacement& placement = plan.placements.emplace_back();
    placement.op = op;
    placement.outputs = {place};
  }
  return plan;
}

}  // namespace

TEST_CASE("a step that keeps everything is the recorded one") {
  const StepPrediction step = chain().predict({});
  CHECK(step.peak_bytes == 1450);
  CHECK(step.step_ms == 13);
  CHECK(step.recomputed_ops == 0);
  CHECK(step.out_bytes == 0);
}

TEST_CASE("a dropped value is made again from what is kept, and takes its op's time and memory") {
  const StepPrediction step = chain().predict(placed({{1, Place::recompute}}));
  CHECK(step.recomputed_ops == 1);
  CHECK(step.recomputed_bytes == 100);
  CHECK(step.step_ms == 14);
  CHECK(step.peak_bytes == 1350);  // v0, v2, v3 under the backward of op4
}

TEST_CASE("a chain of dropped values is made again once, each from the one before it") {
  const StepPrediction step = chain().predict(placed({{1, Place::recompute}, {2, Place::recompute}}));
  CHECK(step.recomputed_ops == 2);
  CHECK(step.recomputed_bytes == 200);
  CHECK(step.step_ms == 15);
  CHECK(step.peak_bytes == 1350);  // v0, v1, v2 under the backward of op3
}
