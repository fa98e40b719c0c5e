// The memory of a step with a caching allocator, in MiB that can be checked by hand.
//
//   v0 = op0()   v1 = op1(v0)   v2 = op2(v1)   loss = op3(v2)
//
// Each op saves what it reads. Unmodelled memory is 1000.
#include "core/plan/planner/simulated_device_memory.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/plan/planner/costs_without_recompute.h"
#include "core/plan/planner/step_predictor.h"
#include "core/plan/planner/step_simulator.h"

namespace memtune::simulated_device_memory_test {

using namespace memtune;
using plan::RecordedStepCosts;
using plan::TensorPlacement;
using planner::SimulatedCachingAllocator;
using planner::SimulatedDeviceMemory;
using planner::StepPrediction;
using planner::StepPredictor;

namespace {

constexpr int64_t kMiB = 1 << 20, kGrain = 512;
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

// MiB of v0, v1 and v2.
using Sizes = std::vector<int64_t>;

// `asks`: requested sizes. `holds`: sizes of the allocator's blocks for them. `more`: peak above the held bytes when
// backward unpacks v2.
RecordedStepCosts recorded(const Sizes& asks, const Sizes& holds, int64_t more, bool drops_v0 = false) {
  RecordedStepCosts costs;
  costs.grain_bytes = kGrain;
  const auto live = [&](int values) {  // v0 is live until op1 has read it
    int64_t mibs = 1000;
    for (int i = drops_v0 && values > 1 ? 1 : 0; i < values; ++i) mibs += holds[i];
    return mibs * kMiB;
  };
  for (int i = 0; i <= kLoss; ++i) {
    costs.values.push_back({.run = i, .bytes = i == kLoss ? 4 : asks[i] * kMiB});
    costs.runs.push_back({.op = i, .ms = 1, .before_bytes = live(i), .makes = {i}});
    costs.runs[i].own_bytes = i == kLoss ? kGrain : holds[i] * kMiB;
    if (i == 0) continue;
    costs.runs[i].reads = {i - 1};
    costs.runs[i].saves = {i - 1};
    costs.saved.push_back({.value = i - 1, .run = i});
  }
  using Kind = RecordedStepCosts::Moment::Kind;
  for (int value = kLoss - 1; value >= 0; --value) {
    const int64_t held = live(value + 1), peak = held + (value == kLoss - 1 ? more : 0) * kMiB;
    costs.moments.push_back({Kind::unpack, value, 2, 0, held, peak});
    costs.moments.push_back({Kind::end, value, 0, 0, held, held - holds[value] * kMiB});
  }
  costs.before_peak_bytes = live(kLoss);
  costs.after_peak_bytes = 1000 * kMiB;
  costs.step_ms = 10;
  return costs;
}

plan::Plan without_v0() {
  plan::Plan plan;
  plan.transfer.min_bytes = plan.saved_min_bytes = 0;
  plan.placements.emplace_back().outputs = {TensorPlacement::recompute};
  return plan;
}

}  // namespace

TEST_CASE("a value takes the size of the block that the allocator had for it") {
  SimulatedCachingAllocator cache(kGrain);
  {
    SimulatedDeviceMemory memory({196 * kMiB, 49 * kMiB}, cache);
    memory.begin(1000 * kMiB);
    memory.take(0);
    memory.take(1);
    CHECK(memory.allocated() == 1246 * kMiB);
    memory.drop(0);
    const int third = memory.make(49 * kMiB);
    CHECK(memory.allocated() == 1099 * kMiB);
    memory.drop(third);
    CHECK(memory.held_bytes() == 50 * kMiB);
  }
  {
    SimulatedDeviceMemory memory({}, cache);
    memory.begin(0);
    memory.set_unmodelled(196 * kMiB);
    CHECK(memory.held_bytes() == 0);
  }
  CHECK(cache.reserved_bytes() == 246 * kMiB);
  SimulatedDeviceMemory next({49 * kMiB, 49 * kMiB}, cache);  // the previous step has freed its blocks
  next.take(0);
  CHECK(next.held_bytes() == 50 * kMiB);
  next.take(1);
  CHECK(next.held_bytes() == 99 * kMiB);
}

TEST_CASE("unmodelled memory takes blocks from the cache and returns them") {
  SimulatedCachingAllocator cache(kGrain);
  SimulatedDeviceMemory memory({196 * kMiB, 49 * kMiB, 49 * kMiB}, cache);
  memory.begin(1000 * kMiB);
  memory.drop(memory.take(0));
  memory.set_unmodelled(1190 * kMiB);
  CHECK(cache.reserved_bytes() == 196 * kMiB);
  memory.take(1);
  CHECK(memory.held_bytes() == 50 * kMiB);
  memory.set_unmodelled(1090 * kMiB);  // part of it is freed
  memory.take(2);
  CHECK(memory.held_bytes() == 99 * kMiB);
  memory.drop(memory.make(140 * kMiB));  // the rest of it is still allocated
  CHECK(cache.reserved_bytes() == (246 + 140) * kMiB);
  memory.set_unmodelled(1000 * kMiB);
  memory.drop(2);
  memory.make(196 * kMiB);
  CHECK(cache.reserved_bytes() == (246 + 140) * kMiB);
  memory.set_unmodelled(900 * kMiB);  // more is freed than was added
  CHECK(memory.allocated() == (900 + 50 + 196) * kMiB);
}

TEST_CASE("a plan that drops a large value gives other values smaller blocks") {
  const RecordedStepCosts costs = recorded({196, 49, 49}, {196, 50, 50}, 500);  // v1 and v2 have a segment each
  const planner::StepPredictor model(facts(), costs);
  CHECK(model.predict({}).peak_bytes == 1796 * kMiB);
  CHECK(model.predict(without_v0()).peak_bytes == (1000 + 50 + 49 + 500) * kMiB);  // v2 is split from v0's
}

TEST_CASE("values are split from the work space of an op") {
  RecordedStepCosts costs = recorded({196, 49, 49}, {196, 49, 49}, 500);
  costs.runs[0].own_bytes += 300 * kMiB;
  const planner::StepPredictor model(facts(), costs);
  CHECK(model.predict({}).peak_bytes == 1794 * kMiB);
  CHECK(model.predict(without_v0()).peak_bytes == (1000 + 49 + 49 + 500) * kMiB);
}

TEST_CASE("a recomputed op takes its work space again") {
  RecordedStepCosts costs = recorded({196, 49, 49}, {196, 49, 49}, 0);
  costs.runs[0].own_bytes += 300 * kMiB;
  for (size_t i = 2; i < costs.moments.size(); ++i) {  // gradients, which use the 300
    costs.moments[i].before_bytes += 200 * kMiB;
    costs.moments[i].peak_bytes += 200 * kMiB;
  }
  const planner::StepPredictor model(facts(), costs);
  const plan::Plan plan = without_v0();
  schedule::LearnedMemoryHeadroomTimeline schedule;
  SimulatedCachingAllocator cache(kGrain);
  planner::StepSimulator(model.tables(), costs, model.unmodelled(), plan, schedule, cache).simulate_step();
  CHECK(cache.reserved_bytes() == (196 + 300 + 300) * kMiB);
}

// In the first step v1 and v2 share a segment of 20, and 10 more need a new one. From then on v1 is in that one.
TEST_CASE("blocks stay in the segments in which earlier steps left them") {
  const RecordedStepCosts costs = recorded({12, 9, 11}, {12, 10, 11}, 10);
  const planner::StepPredictor model(facts(), costs);
  CHECK(model.predict({}).peak_bytes == (1033 + 10) * kMiB);
  CHECK(model.predict(without_v0()).peak_bytes == (1000 + 9 + 11 + 10) * kMiB);  // v0 leaves room for the 10
}

TEST_CASE("the blocks of a step with recomputation are converted to those without it") {
  RecordedStepCosts costs = recorded({12, 9, 11}, {12, 9, 11}, 10, true);
  costs.plan = without_v0();
  const RecordedStepCosts kept = planner::costs_without_recompute(facts(), costs);
  CHECK(kept.moments[0].peak_bytes == (1033 + 10) * kMiB);
  CHECK(kept.runs[2].before_bytes == 1022 * kMiB);
  CHECK(kept.after_peak_bytes == 1000 * kMiB);
}

TEST_CASE("a device without a caching allocator has blocks of the requested size") {
  RecordedStepCosts costs = recorded({196, 49, 49}, {196, 49, 49}, 500);
  costs.grain_bytes = 1;
  CHECK(planner::StepPredictor(facts(), costs).predict(without_v0()).peak_bytes == (1000 + 98 + 500) * kMiB);
}

TEST_CASE("a device of a given size holds the segments that the allocator reserves, and its overhead") {
  plan::ProgramFacts program = facts();
  RecordedStepCosts costs = recorded({196, 49, 49}, {196, 50, 50}, 30);
  costs.start_bytes = 1000 * kMiB;
  const StepPredictor plain(program, costs);
  const StepPrediction without = plain.predict({});
  CHECK(without.required_bytes == without.peak_bytes);
  costs.device_overhead_bytes = 500 * kMiB;
  const StepPredictor predictor(program, costs);
  const auto on_device = [&](int64_t mibs) { return predictor.predict({}, {}, nullptr, {mibs * kMiB}); };
  CHECK(predictor.predict({}).required_bytes == without.peak_bytes + 500 * kMiB);
  CHECK(predictor.predict({}).short_bytes == 0);
  const StepPrediction large = on_device(4000);
  CHECK(large.short_bytes == 0);
  CHECK(large.required_bytes >= without.peak_bytes + 500 * kMiB);
  const int64_t needed = large.required_bytes / kMiB;
  CHECK(on_device(needed).short_bytes == 0);
  CHECK(on_device(1600).short_bytes > 0);
  CHECK(on_device(1600).peak_bytes == large.peak_bytes);
}

}  // namespace memtune::simulated_device_memory_test
