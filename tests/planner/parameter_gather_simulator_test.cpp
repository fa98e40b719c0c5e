// A simulated sharded step, on numbers that can be checked by hand.
//
//   v0 = op0()   v1 = op1(v0)   v2 = op2(v1)   v3 = op3(v2), 100 bytes each; loss = op4(v3)
//
// op0 and op1 read unit 0, op2 and op3 unit 1, of 1000 bytes each. Each op saves what it reads. Its work space is 20
// bytes in forward and 50 in backward. Unmodelled memory is 1000. An op takes 1 ms in forward and 2 in backward.
#include "core/plan/planner/parameter_gather_simulator.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "core/plan/planner/costs_without_recompute.h"
#include "core/plan/planner/planner.h"
#include "core/plan/planner/step_simulator.h"

namespace memtune::gather_simulator_test {

using namespace memtune;
using plan::RecordedStepCosts;
using plan::TensorPlacement;
using planner::StepPrediction;
using Kind = RecordedStepCosts::Moment::Kind;

namespace {

constexpr int kLoss = 4;

struct Gathered {  // bytes in the recorded step
  std::array<int64_t, kLoss + 1> runs;
  int64_t before_read;                  // from the end of the forward on
  std::array<int64_t, kLoss> by_value;  // while backward has v3, v2, v1, v0
};

Gathered gathered(const std::string& reshard) {
  if (reshard == "always") return {{2000, 2000, 1000, 1000, 1000}, 1000, {1000, 2000, 2000, 1000}};
  if (reshard == "never") return {{2000, 2000, 2000, 2000, 2000}, 2000, {2000, 2000, 2000, 2000}};
  return {{2000, 2000, 2000, 2000, 2000}, 2000, {2000, 2000, 2000, 1000}};
}

plan::ProgramFacts facts() {
  plan::ProgramFacts facts;
  for (int i = 0; i <= kLoss; ++i) {
    plan::ProgramOpFacts& op = facts.ops.emplace_back();
    op.name = "op" + std::to_string(i);
    op.block = i == kLoss ? -1 : i / 2;
    op.after_blocks = i == kLoss;
    op.outputs = {i};
  }
  return facts;
}

RecordedStepCosts recorded(const std::string& reshard = "always", double gather_ms = 3) {
  const Gathered there = gathered(reshard);
  RecordedStepCosts costs;
  costs.sharding.ranks = 2;
  costs.sharding.reshard = reshard;
  costs.sharding.units = {{"block 0", 1000, gather_ms}, {"block 1", 1000, gather_ms}};
  for (int i = 0; i <= kLoss; ++i) {
    const int64_t made = i == kLoss ? 0 : 100;
    costs.values.push_back({.run = i, .bytes = made});
    costs.runs.push_back(
        {.op = i, .ms = 1, .before_bytes = 1000 + i * 100 + there.runs[i], .own_bytes = made + 20, .makes = {i}});
    if (i < kLoss) costs.runs[i].units = {i / 2};
    if (i == 0) continue;
    costs.runs[i].reads = {i - 1};
    costs.runs[i].saves = {i - 1};
    costs.saved.push_back({.value = i - 1, .run = i});
  }
  const auto read = [&](int unit, int64_t bytes) {
    const int moment = static_cast<int>(costs.moments.size());
    costs.sharding.reads.push_back({.moment = moment, .before_bytes = bytes, .peak_bytes = bytes, .units = {unit}});
  };
  for (int value = kLoss - 1; value >= 0; --value) {
    const int64_t held = 1000 + (value + 1) * 100 + there.by_value[kLoss - 1 - value];
    if (value < kLoss - 1) read((value + 1) / 2, held);
    costs.moments.push_back({Kind::unpack, value, 2, 0, held, held + 50});
    costs.moments.push_back({Kind::end, value, 0, 0, held, held - 100});
  }
  read(0, 1000 + there.by_value.back());
  costs.before_peak_bytes = 1400 + there.before_read;
  costs.after_peak_bytes = 1000 + (reshard == "never" ? 2000 : 0);
  costs.step_ms = 13;
  return costs;
}

plan::Plan placed(TensorPlacement place, const std::vector<int>& ops) {
  plan::Plan plan;
  plan.transfer.min_bytes = plan.saved_min_bytes = 0;
  for (const int op : ops) {
    plan::OneOpActivationPlacements& placement = plan.placements.emplace_back();
    placement.op = op;
    placement.outputs = {place};
  }
  return plan;
}
plan::Plan again(const std::vector<int>& ops) { return placed(TensorPlacement::recompute, ops); }

StepPrediction predict(const RecordedStepCosts& costs, const plan::Plan& plan) {
  const plan::ProgramFacts program = facts();
  return planner::StepPredictor(program, costs).predict(plan);
}

}  // namespace

TEST_CASE("a simulated sharded step that keeps everything equals the recorded one") {
  for (const char* reshard : {"always", "after-backward", "never"}) {
    CAPTURE(reshard);
    const StepPrediction step = predict(recorded(reshard), {});
    CHECK(step.peak_bytes == (std::string(reshard) == "always" ? 3350 : 3450));
    CHECK(step.step_ms == 13);
    CHECK(step.gathered_bytes == (std::string(reshard) == "always" ? 3000 : 2000));
  }
}

TEST_CASE("a unit that a recomputed op reads early is resident with the unit of the node") {
  RecordedStepCosts costs = recorded();
  costs.moments[6].peak_bytes += 1150;  // of op1's backward, which reads unit 0 alone
  CHECK(predict(costs, {}).peak_bytes == 3350);
  const StepPrediction step = predict(costs, again({1}));  // for op2's backward
  CHECK(step.peak_bytes == 1100 + 2000 + 1200);            // unit 1 stays: unit 0 is in use when op1's node reads it
  CHECK(step.gathered_bytes == 3000);
  CHECK(step.step_ms == 15);  // it arrives 3 ms after the read of unit 1 and is needed 2 ms after it
}

TEST_CASE("freed units are gathered again for recomputation and compute waits for them") {
  const plan::Plan plan = again({1, 2, 3});
  // op1 is recomputed first, from a unit that arrives only then. Later the unit is gathered for op1's own backward.
  const StepPrediction step = predict(recorded(), plan);
  CHECK(step.recomputed_ops == 3);
  CHECK(step.gathered_bytes == 4000);
  CHECK(step.step_ms == doctest::Approx(13 + 3 + 3));
  // `none` already waits for 1 of 5 ms, because 4 ms of backward overlap.
  CHECK(predict(recorded("always", 5), plan).step_ms == doctest::Approx(13 + 3 + 5 - 1));
}

TEST_CASE("offloaded values are reloaded after the units that are gathered ahead") {
  const StepPrediction step = predict(recorded(), placed(TensorPlacement::host, {0}));
  CHECK(step.out_bytes == 100);
  CHECK(step.peak_bytes == 3250);  // in v2's backward, which has both units, without v0
}

TEST_CASE("units that forward gathered are not gathered again for recomputation") {
  CHECK(predict(recorded("never"), again({1, 2, 3})).gathered_bytes == 2000);
  CHECK(predict(recorded("never"), again({1, 2, 3})).step_ms == 16);
  const StepPrediction kept = predict(recorded("after-backward"), again({1, 2, 3}));
  CHECK(kept.gathered_bytes == 3000);  // op1's unit is freed after recomputation: backward continues in the other
}

TEST_CASE("units that are never freed are gathered once for all micro-batches") {
  RecordedStepCosts costs = recorded("never");
  costs.passes = 2;
  CHECK(predict(costs, {}).gathered_bytes == 2000);
  costs = recorded();
  costs.passes = 2;
  CHECK(predict(costs, {}).gathered_bytes == 6000);
}

TEST_CASE("no plan of a sharded step is predicted faster than the lower bound") {
  const plan::ProgramFacts program = facts();
  for (const char* reshard : {"always", "after-backward", "never"}) {
    CAPTURE(reshard);
    const RecordedStepCosts costs = recorded(reshard);
    const planner::StepPredictor model(program, costs);
    const planner::StepTimeLowerBound bound(model.tables(), costs, model.unmodelled(),
                                            1000);  // no value is so large, so none is offloaded
    for (const auto& ops : {std::vector<int>{1}, {2}, {1, 2}, {1, 2, 3}, {0, 1, 2, 3}}) {
      const StepPrediction step = model.predict(again(ops));
      const auto least = bound.least_ms(step.peak_bytes, 0);
      REQUIRE(least.has_value());
      CHECK(*least <= step.step_ms);
    }
    // The peak is in op4's backward. 50 bytes less are half a value, if the gathered bytes there are known.
    if (std::string(reshard) == "never") CHECK(bound.least_ms(3400, 0).value() == doctest::Approx(13.5));
  }
}

TEST_CASE("a sharded step with recomputation gives the costs of one that keeps everything") {
  const plan::ProgramFacts program = facts();
  RecordedStepCosts none = recorded("always", 5);
  none.sharding.reads[2].wait_ms = 1;
  none.step_ms = 14;
  RecordedStepCosts made = none;
  made.plan = again({1, 2, 3});
  {
    const planner::RecordedStepSimulationTables tables(program, none);
    const planner::UnmodelledMemory unmodelled = planner::find_unmodelled_memory(tables, none);
    schedule::LearnedMemoryHeadroomTimeline schedule;
    planner::SimulatedCachingAllocator cache(none.grain_bytes);
    planner::StepSimulator first(tables, none, unmodelled, made.plan, schedule, cache);
    first.simulate_step();
    planner::StepSimulator step(tables, none, unmodelled, made.plan, schedule, cache, {}, first.next_step_state());
    step.simulate_step();
    const planner::UnmodelledMemory& held = step.held();
    for (size_t i = 0; i < made.runs.size(); ++i)
      made.runs[i].before_bytes = unmodelled.runs[i].before_bytes + held.runs[i].before_bytes;
    for (size_t i = 0; i < made.moments.size(); ++i) {
      const bool unpacks = made.moments[i].kind == Kind::unpack;
      made.moments[i].before_bytes =
          unmodelled.moments[i].before_bytes + (unpacks ? held.moments[i].peak_bytes : held.moments[i].before_bytes);
      made.moments[i].peak_bytes = unmodelled.moments[i].peak_bytes + held.moments[i].peak_bytes;
    }
    for (size_t i = 0; i < made.sharding.reads.size(); ++i) {
      made.sharding.reads[i].before_bytes = unmodelled.reads[i].before_bytes + held.reads[i].before_bytes;
      made.sharding.reads[i].peak_bytes = unmodelled.reads[i].peak_bytes + held.reads[i].peak_bytes;
    }
    made.before_peak_bytes = unmodelled.before_peak_bytes + held.before_peak_bytes;
    made.sharding.reads[2].wait_ms = 0;
    made.rerun_ms = 3 + 5;
    made.step_ms = predict(none, made.plan).step_ms;
    CHECK(made.step_ms == 21);
  }
  CHECK(made.before_peak_bytes != none.before_peak_bytes);
  const RecordedStepCosts kept = planner::costs_without_recompute(program, made);
  CHECK(kept.step_ms == doctest::Approx(14));
  CHECK(kept.rerun_ratio == doctest::Approx(1));
  CHECK(kept.moments.size() == none.moments.size());
  for (size_t i = 0; i < kept.moments.size(); ++i) CHECK(kept.moments[i].peak_bytes == none.moments[i].peak_bytes);
  for (size_t i = 0; i < kept.sharding.reads.size(); ++i)
    CHECK(kept.sharding.reads[i].peak_bytes == none.sharding.reads[i].peak_bytes);
  CHECK(predict(kept, {}).peak_bytes == 3350);
}

}  // namespace memtune::gather_simulator_test
