// A simulated step whose parameters and optimizer states are in host memory, on numbers that can be checked by hand.
//
//   v0 = op0()   v1 = op1(v0)   v2 = op2(v1)   v3 = op3(v2), 100 bytes each; loss = op4(v3)
//
// op0 and op1 are block 0, op2 and op3 block 1. Each block has 1000 bytes of parameters and 2000 of moments; 1000 bytes
// are other memory. Work space is 20 bytes in forward and 50 in backward. An op takes 1 ms in forward and 2 in
// backward, the optimizer 1 ms a block.
#include "core/plan/planner/model_state_offload_simulator.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/plan/planner/planner.h"

namespace memtune::state_simulator_test {
namespace {

using plan::RecordedStepCosts;
using plan::TensorPlacement;
using planner::StepPrediction;
using Kind = RecordedStepCosts::Moment::Kind;

constexpr int kLoss = 4;
constexpr int64_t kLasting = 7000;

plan::ProgramFacts facts() {
  plan::ProgramFacts facts;
  facts.blocks = {{"block.0"}, {"block.1"}};
  for (int i = 0; i <= kLoss; ++i) {
    plan::ProgramOpFacts& op = facts.ops.emplace_back();
    op.name = "op" + std::to_string(i);
    op.block = i == kLoss ? -1 : i / 2;
    op.after_blocks = i == kLoss;
    op.outputs = {i};
  }
  return facts;
}

RecordedStepCosts recorded(double gb_per_s) {
  RecordedStepCosts costs;
  for (int i = 0; i <= kLoss; ++i) {
    const int64_t made = i == kLoss ? 0 : 100;
    costs.values.push_back({.run = i, .bytes = made});
    costs.runs.push_back({.op = i, .ms = 1, .before_bytes = kLasting + i * 100, .own_bytes = made + 20, .makes = {i}});
    if (i == 0) continue;
    costs.runs[i].reads = {i - 1};
    costs.runs[i].saves = {i - 1};
    costs.saved.push_back({.value = i - 1, .run = i});
  }
  for (int value = kLoss - 1; value >= 0; --value) {
    const int64_t gradients = value == 0 ? 1000 : 0;  // those of block 1
    const int64_t held = kLasting + (value + 1) * 100 + gradients;
    costs.moments.push_back({Kind::unpack, value, 2, 0, held, held + 50});
    costs.moments.push_back({Kind::end, value, 0, 0, held, held - 100});
    costs.gradient_bytes.insert(costs.gradient_bytes.end(), 2, gradients);
  }
  costs.gradient_bytes.push_back(2000);
  costs.start_bytes = kLasting;
  costs.before_peak_bytes = kLasting + 400;
  costs.after_peak_bytes = kLasting + 2000;
  costs.after_ms = 2;
  costs.step_ms = 15;
  costs.in_gb_per_s = costs.out_gb_per_s = gb_per_s;
  costs.states.units = {{"block.0", 0, 1000, 0, 2000}, {"block.1", 1, 1000, 0, 2000}};
  return costs;
}

plan::Plan offloaded(TensorPlacement parameters, TensorPlacement moments, const std::vector<std::string>& blocks) {
  plan::Plan plan;
  for (const std::string& block : blocks) plan.states.push_back({block, parameters, moments});
  return plan;
}

StepPrediction predict(const RecordedStepCosts& costs, const plan::Plan& plan) {
  const plan::ProgramFacts program = facts();
  return planner::StepPredictor(program, costs).predict(plan);
}

const plan::Plan kAll = offloaded(TensorPlacement::host, TensorPlacement::host, {"block.0", "block.1"});

TEST_CASE("a simulated step without offloaded states equals the recorded one") {
  const StepPrediction step = predict(recorded(0), {});
  CHECK(step.step_ms == 15);
  CHECK(step.peak_bytes == kLasting + 2000);
}

TEST_CASE("what is in host memory is not on the device but for the units in use") {
  const StepPrediction step = predict(recorded(0), kAll);
  // In backward of block 0: both units' parameters and moments, block 1's on their way out; no gradient of block 1.
  CHECK(step.peak_bytes == 1000 + 2 * 3000 + 100 + 50);
  CHECK(step.host_peak_bytes == 6000);
  CHECK(step.in_bytes == 1000 + 4000 + 1000);  // block 1 in forward, block 0 in backward
  CHECK(step.out_bytes == 6000);
  CHECK(step.step_ms == 15);
  const StepPrediction one = predict(recorded(0), offloaded(TensorPlacement::keep, TensorPlacement::host, {"block.1"}));
  CHECK(one.host_peak_bytes == 2000);
  CHECK(one.in_bytes == 2000);
  CHECK(one.peak_bytes == kLasting + 300 + 50);  // in its own backward
}

TEST_CASE("compute waits for copies that take longer than what they overlap") {
  CHECK(predict(recorded(0.001), kAll).step_ms == 15);  // 1000 bytes a ms: hidden
  // 500 bytes a ms. Block 1 is loaded in forward by ms 2. In backward its moments come from ms 7 to 11, when it ends;
  // block 0's parameters to 13, two ms late after the update; its moments to 17, after its backward.
  CHECK(predict(recorded(0.0005), kAll).step_ms == 15 + 1 + 2);
}

TEST_CASE("clipped gradients go to host memory and are updated in the next forward") {
  RecordedStepCosts costs = recorded(0);
  costs.states.clips = true;
  const StepPrediction step = predict(costs, kAll);
  CHECK(step.host_peak_bytes == 8000);
  CHECK(step.out_bytes == 6000 + 2000);
  CHECK(step.step_ms == 15);
  const int64_t forward = 1000 + 2 * 4000 + 100 + 120;  // block 0 on its way out while block 1 is updated
  CHECK(step.peak_bytes == forward);
}

TEST_CASE("recorded states are read back and a damaged table is refused") {
  const RecordedStepCosts costs = recorded(1);
  const nlohmann::json json = costs;
  CHECK(json.get<RecordedStepCosts>() == costs);
  nlohmann::json damaged = json;
  damaged["states"]["units"]["rows"][0][1] = -3;
  CHECK_THROWS(damaged.get<RecordedStepCosts>());
}

}  // namespace
}  // namespace memtune::state_simulator_test
