// Simulated steps, on numbers that can be checked by hand.
//
//   v0 = op0()   v1 = op1(v0)   v2 = op2(v1)   v3 = op3(v2), 100 bytes each; loss = op4(v3)
//
// Each op saves what it reads. Its work space is 20 bytes in forward and 50 in backward. Unmodelled memory is 1000. An
// op takes 1 ms in forward and 2 in backward. op0 and op1 are a block, op2 and op3 too.
#include "core/plan/planner/step_predictor.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/record/trace/private_save.h"

namespace memtune::step_predictor_test {

using namespace memtune;
using plan::RecordedStepCosts;
using plan::TensorPlacement;
using planner::StepPrediction;
using planner::StepPredictor;

namespace {

constexpr int kLoss = 4;
using Kind = RecordedStepCosts::Moment::Kind;

struct Step {
  plan::ProgramFacts facts;
  RecordedStepCosts costs;
  StepPrediction predict(const plan::Plan& plan) const { return StepPredictor(facts, costs).predict(plan); }

  void add_op(int i) {
    plan::ProgramOpFacts op;
    op.name = "op" + std::to_string(i);
    op.block = i == kLoss ? -1 : i / 2;
    op.after_blocks = i == kLoss;
    op.outputs = {i};
    facts.ops.push_back(op);
    const int64_t made = i == kLoss ? 0 : 100;
    costs.values.push_back({.run = i, .bytes = made});
    costs.runs.push_back({.op = i, .ms = 1, .own_bytes = made + 20, .makes = {i}});
    if (i > 0) costs.runs.back().reads = {i - 1};
  }
  int save(int value, int run) {
    costs.saved.push_back({.value = value, .run = run});
    costs.runs[run].saves.push_back(static_cast<int>(costs.saved.size()) - 1);
    return static_cast<int>(costs.saved.size()) - 1;
  }
  void unpack(int saved, int64_t before, double ms = 2) {
    costs.moments.push_back({Kind::unpack, saved, ms, 0, before, before + 50});
  }
  void end(int saved, int64_t before) {
    const int64_t freed = costs.values[costs.saved[saved].value].bytes;
    costs.moments.push_back({Kind::end, saved, 0, 0, before, before - freed});
  }
};

Step ops() {
  Step step;
  for (int i = 0; i <= kLoss; ++i) step.add_op(i);
  step.costs.before_peak_bytes = 1000;
  step.costs.after_peak_bytes = 1000;
  step.costs.step_ms = 13;
  return step;
}

// `saved`: the saved values. `own_bytes`: what op2 saves for itself, the cast of `cast_of`.
Step chain(const std::set<int>& saved = {0, 1, 2, 3}, int64_t own_bytes = 0, int cast_of = RecordedStepCosts::kNoCast) {
  Step step = ops();
  const auto live = [&](int run) {  // when it starts
    int64_t bytes = 1000 + (run > 2 ? own_bytes : 0);
    for (int value = 0; value < run; ++value)
      if (saved.contains(value) || value == run - 1) bytes += 100;
    return bytes;
  };
  for (int run = 0; run <= kLoss; ++run) step.costs.runs[run].before_bytes = live(run);
  std::vector<int> tickets(kLoss, -1);
  for (const int value : saved) tickets[value] = step.save(value, value + 1);
  int own = -1;
  if (own_bytes > 0) {
    step.costs.values.push_back({.run = 2, .output = kPrivateSave, .bytes = own_bytes, .cast_of = cast_of});
    step.costs.runs[2].makes.push_back(5);
    step.costs.runs[2].own_bytes += own_bytes;
    own = step.save(5, 2);
  }
  for (int value = kLoss - 1; value >= 0; --value) {
    const bool asks = own >= 0 && value == 1;
    const int64_t held = live(value + 1) + (asks ? own_bytes : 0);
    if (tickets[value] < 0) continue;
    if (asks) step.unpack(own, held, 0);
    step.unpack(tickets[value], held);
    step.end(tickets[value], held);
    if (asks) step.end(own, held - 100);
  }
  return step;
}

plan::Plan placed(const std::vector<std::pair<int, TensorPlacement>>& outputs) {
  plan::Plan plan;
  plan.transfer.min_bytes = 0;
  plan.saved_min_bytes = 0;
  for (const auto& [op, place] : outputs) {
    plan::OneOpActivationPlacements& placement = plan.placements.emplace_back();
    placement.op = op;
    placement.outputs = {place};
  }
  return plan;
}

plan::Plan own_of_op2(TensorPlacement place) {
  plan::Plan plan = placed({{2, TensorPlacement::keep}});
  plan.placements[0].saved = place;
  return plan;
}

}  // namespace

TEST_CASE("an op that reads a size or a type is never recomputed") {
  Step step = chain();
  CHECK(step.predict(placed({{2, TensorPlacement::recompute}})).recomputed_ops == 1);
  step.facts.ops[2].op_class = plan::OpClass::host;
  CHECK(step.predict(placed({{2, TensorPlacement::recompute}})).recomputed_ops == 0);
}

TEST_CASE("a simulated step that keeps everything equals the recorded one") {
  const StepPrediction step = chain().predict({});
  CHECK(step.peak_bytes == 1450);
  CHECK(step.step_ms == 13);
  CHECK(step.recomputed_ops == 0);
  CHECK(step.out_bytes == 0);
}

TEST_CASE("a dropped value is recomputed from kept ones and takes its op's time and memory") {
  const StepPrediction step = chain().predict(placed({{1, TensorPlacement::recompute}}));
  CHECK(step.recomputed_ops == 1);
  CHECK(step.recomputed_bytes == 100);
  CHECK(step.recompute_ms == 1);
  CHECK(step.step_ms == 14);
  CHECK(step.peak_bytes == 1350);  // v0, v2, v3 in op4's backward
}

TEST_CASE("a chain of dropped values is recomputed once and each from the one before it") {
  const StepPrediction step =
      chain().predict(placed({{1, TensorPlacement::recompute}, {2, TensorPlacement::recompute}}));
  CHECK(step.recomputed_ops == 2);
  CHECK(step.recomputed_bytes == 200);
  CHECK(step.step_ms == 15);
  CHECK(step.peak_bytes == 1350);  // v0, v1, v2 in op3's backward
}

TEST_CASE("the inputs of a dropped value are kept until it is recomputed") {
  const StepPrediction step = chain({1, 2, 3}).predict(placed({{1, TensorPlacement::recompute}}));
  CHECK(step.recomputed_ops == 1);
  CHECK(step.peak_bytes == 1350);  // v0, v2, v3 in op4's backward: nothing is gained
}

TEST_CASE("an engine that recomputes whole blocks also recomputes ops that backward does not need") {
  const Step step = chain({0, 1, 2});
  plan::Plan plan = placed({{2, TensorPlacement::recompute}, {3, TensorPlacement::recompute}});
  CHECK(step.predict(plan).recomputed_ops == 1);
  plan.transfer.compatibility.whole_blocks = true;
  CHECK(step.predict(plan).recomputed_ops == 2);
}

TEST_CASE("an engine that does not learn reloads on request and the host may wait for each copy") {
  Step step = chain();
  step.costs.out_gb_per_s = step.costs.in_gb_per_s = 2e-5;  // 5 ms
  plan::Plan plan = placed({{1, TensorPlacement::host}});
  plan.transfer.compatibility.learns = false;
  // Copied out from 2 to 7 ms, while the head begins at 4. Reloaded when it is asked for, 5 ms.
  const StepPrediction fixed = step.predict(plan);
  CHECK(fixed.wait_ms == doctest::Approx(3 + 5));
  CHECK(fixed.peak_bytes == 1420);
  plan.transfer.compatibility.host_waits = true;
  CHECK(step.predict(plan).wait_ms == doctest::Approx(5 + 5));
}

TEST_CASE("every micro-batch of a step recomputes and offloads and waits") {
  Step step = chain();
  step.costs.passes = 2;
  step.costs.step_ms = 26;
  CHECK(step.predict(placed({{1, TensorPlacement::recompute}})).recomputed_ops == 2);
  CHECK(step.predict(placed({{1, TensorPlacement::recompute}})).step_ms == 28);
  CHECK(step.predict(placed({{1, TensorPlacement::host}})).out_bytes == 200);
}

TEST_CASE("recorded times are scaled to the measured step time") {
  Step step = chain();
  step.costs.step_ms = 6.5;
  CHECK(step.predict(placed({{1, TensorPlacement::recompute}})).step_ms == 7);
}

TEST_CASE("an offloaded value is copied out when it is saved and is back when it is unpacked") {
  const StepPrediction step = chain().predict(placed({{1, TensorPlacement::host}}));
  CHECK(step.out_bytes == 100);
  CHECK(step.in_bytes == 100);
  CHECK(step.host_peak_bytes == 4096);
  CHECK(step.recomputed_ops == 0);
  CHECK(step.peak_bytes == 1420);  // v1 is still resident in op3: the host runs ahead and sees no copy ended
  CHECK(step.step_ms == 13);       // the PCIe bandwidth is not known
}

TEST_CASE("compute waits for copies if the peak leaves no room for them") {
  Step step = chain();
  step.costs.out_gb_per_s = step.costs.in_gb_per_s = 2e-5;  // 5 ms
  const StepPrediction moved = step.predict(placed({{1, TensorPlacement::host}}));
  // Copied out from 2 to 7 ms, while forward ends at 5. Reloaded from v2's unpack at 9 to 14 ms, needed at 11.
  CHECK(moved.wait_ms == doctest::Approx(5));
  CHECK(moved.step_ms == doctest::Approx(18));
  CHECK(moved.peak_bytes == 1420);
}

TEST_CASE("values beyond host memory are written to disk from the oldest on and read back") {
  const plan::Plan plan = placed({{0, TensorPlacement::disk}, {1, TensorPlacement::disk}, {2, TensorPlacement::disk}});
  Step step = chain();
  const StepPrediction roomy = StepPredictor(step.facts, step.costs).predict(plan, {3 * 4096, true});
  CHECK(roomy.host_peak_bytes == 3 * 4096);
  CHECK(roomy.disk_read_bytes == 0);
  const StepPrediction tight = StepPredictor(step.facts, step.costs).predict(plan, {2 * 4096, true});
  CHECK(tight.host_peak_bytes == 2 * 4096);
  CHECK(tight.disk_write_bytes == 100);  // v0; v1 and v2 stay where they are
  CHECK(tight.disk_read_bytes == 100);
  CHECK(tight.disk_peak_bytes == 100);
  CHECK(tight.out_bytes == 300);
  const StepPrediction none = StepPredictor(step.facts, step.costs).predict(plan, {2 * 4096, false});
  CHECK(none.host_peak_bytes > 2 * 4096);  // no room: it cannot run
  CHECK(none.disk_write_bytes == 0);
}

TEST_CASE("the host waits for the disk and compute waits once it has caught up") {
  const plan::Plan plan = placed({{0, TensorPlacement::disk}, {1, TensorPlacement::disk}, {2, TensorPlacement::disk}});
  Step step = chain();
  for (RecordedStepCosts::Run& run : step.costs.runs) run.host_ms = run.ms;
  for (RecordedStepCosts::Moment& moment : step.costs.moments) moment.host_ms = moment.ms;
  const auto predict = [&] { return StepPredictor(step.facts, step.costs).predict(plan, {4096, true}); };
  CHECK(predict().wait_ms == 0);
  step.costs.disk_write_gb_per_s = 5e-5;  // 2 ms for a value
  // v1 is offloaded at 2 and has room at 4, when v0 is written. v2 is offloaded at 5 and has room at 7, when v1 is.
  CHECK(predict().wait_ms == doctest::Approx(4));
  step.costs.disk_read_gb_per_s = 2e-5;
  CHECK(predict().wait_ms > 4);
}

TEST_CASE("values smaller than min_bytes are not offloaded") {
  plan::Plan plan = placed({{1, TensorPlacement::host}});
  plan.transfer.min_bytes = 101;
  CHECK(chain().predict(plan).out_bytes == 0);
  CHECK(chain().predict(plan).peak_bytes == 1450);
}

TEST_CASE("a private value of an op is recomputed with the op or offloaded") {
  const Step step = chain({0, 1, 2, 3}, 200);
  CHECK(step.predict({}).peak_bytes == 1650);
  const StepPrediction again = step.predict(own_of_op2(TensorPlacement::recompute));
  CHECK(again.recomputed_ops == 1);
  CHECK(again.recomputed_bytes == 0);
  CHECK(again.peak_bytes == 1520);  // v0, v1 and what op2 takes
  CHECK(step.predict(own_of_op2(TensorPlacement::host)).out_bytes == 200);
  plan::Plan larger = own_of_op2(TensorPlacement::recompute);
  larger.saved_min_bytes = 201;
  CHECK(step.predict(larger).recomputed_ops == 0);
}

TEST_CASE("a cast that an op saved is recomputed without the op") {
  const StepPrediction step = chain({0, 1, 2, 3}, 200, 1).predict(own_of_op2(TensorPlacement::recompute));
  CHECK(step.recomputed_ops == 1);
  CHECK(step.recomputed_bytes == 200);
  CHECK(step.recompute_ms < 1.5);
}

TEST_CASE("a cast parameter is recomputed but not offloaded and autocast keeps it in forward") {
  const Step step = chain({0, 1, 2, 3}, 200, RecordedStepCosts::kCastOfOther);
  CHECK(step.predict(own_of_op2(TensorPlacement::host)).out_bytes == 0);
  const StepPrediction again = step.predict(own_of_op2(TensorPlacement::recompute));
  CHECK(again.recomputed_bytes == 200);
  CHECK(again.peak_bytes == 1620);  // all of the forward, op4 included
}

// op2 writes into v1's memory and saves the result.
TEST_CASE("an in-place op is recomputed from a copy of the value that it overwrote") {
  Step step = ops();
  step.costs.runs[2].writes = {1};
  step.costs.runs[2].own_bytes = 20;
  const int64_t before[] = {1000, 1100, 1200, 1200, 1300};
  for (int run = 0; run <= kLoss; ++run) step.costs.runs[run].before_bytes = before[run];
  const int s0 = step.save(0, 1), s1 = step.save(2, 2), s2 = step.save(2, 3), s3 = step.save(3, 4);
  for (const auto& [saved, held] : std::vector<std::pair<int, int64_t>>{{s3, 1300}, {s2, 1200}, {s1, 1200}, {s0, 1100}})
    step.unpack(saved, held), step.end(saved, held);
  CHECK(step.predict({}).peak_bytes == 1350);
  const StepPrediction one = step.predict(placed({{2, TensorPlacement::recompute}}));
  CHECK(one.recomputed_ops == 1);
  CHECK(one.peak_bytes == 1420);  // v0, the copy of v1, v2 and what op3 takes
  const StepPrediction both = step.predict(placed({{1, TensorPlacement::recompute}, {2, TensorPlacement::recompute}}));
  CHECK(both.recomputed_ops == 2);
  CHECK(both.recomputed_bytes == 200);
  CHECK(both.peak_bytes == 1320);  // v0, v1, its copy and what op2 takes
}

TEST_CASE("the simulator does not recompute an op that writes outside of the step") {
  Step step = chain();
  step.costs.runs[1].writes_outside = true;
  const StepPrediction kept = step.predict(placed({{1, TensorPlacement::recompute}}));
  CHECK(kept.recomputed_ops == 0);
  CHECK(kept.peak_bytes == 1450);
}

TEST_CASE("nested checkpoints recompute an inner block on the way and again in its own backward") {
  plan::Plan plan = placed({{0, TensorPlacement::recompute},
                            {1, TensorPlacement::recompute},
                            {2, TensorPlacement::recompute},
                            {3, TensorPlacement::recompute}});
  CHECK(chain().predict(plan).recomputed_ops == 4);
  CHECK(chain().predict(plan).peak_bytes == 1450);
  plan.nested = true;
  const StepPrediction nested = chain().predict(plan);
  CHECK(nested.recomputed_ops == 6);
  CHECK(nested.recomputed_bytes == 600);
  CHECK(nested.peak_bytes == 1320);  // v1, v2 and what op3 takes
}

// The host takes 3 ms to issue an op of the forward, and 1 ms for backward of one.
//
//   host     0.....3.....6.....9....12....15.16.17.18.19
//   compute        0--4  1--7  2-10  3-13  4-16 v3-18 v2-20 v1-22 v0-24
Step host_bound() {
  Step step = chain();
  step.costs.issue.runs.assign(5, {3, false});
  for (const RecordedStepCosts::Moment& moment : step.costs.moments)
    step.costs.issue.moments.push_back({moment.kind == Kind::unpack ? 1.0 : 0.0, false});
  step.costs.step_ms = 24;
  return step;
}

TEST_CASE("an op that the host issues late costs what issuing it takes") {
  Step step = host_bound();
  CHECK(StepPredictor(step.facts, step.costs).tables().scale == doctest::Approx(1));
  CHECK(StepPredictor(step.facts, step.costs).tables().idle_ms == doctest::Approx(11));
  CHECK(step.predict({}).step_ms == doctest::Approx(24));
  // Compute waits until 19 for op2, whose recomputation ends at 20.
  const StepPrediction recomputed = step.predict(placed({{2, TensorPlacement::recompute}}));
  CHECK(recomputed.step_ms == doctest::Approx(26));
  CHECK(recomputed.recompute_ms == doctest::Approx(2));
  // The same step without issue times: the op takes its time on the device.
  step.costs.issue = {};
  CHECK(step.predict(placed({{2, TensorPlacement::recompute}})).step_ms == doctest::Approx(24 + 24.0 / 13));
}

TEST_CASE("the host's time is no cost where it is ahead of the device") {
  Step step = host_bound();
  step.costs.issue.runs.assign(5, {0.5, false});
  for (RecordedStepCosts::IssueTime& time : step.costs.issue.moments) time.ms /= 2;
  step.costs.step_ms = 13.5;  // compute starts when op0 is issued
  CHECK(StepPredictor(step.facts, step.costs).tables().idle_ms == doctest::Approx(0.5));
  CHECK(step.predict(placed({{2, TensorPlacement::recompute}})).step_ms == doctest::Approx(14.5));
}

TEST_CASE("a measured step that is faster than the recorded one scales both clocks") {
  Step step = host_bound();
  step.costs.step_ms = 12;
  CHECK(step.predict(placed({{2, TensorPlacement::recompute}})).step_ms == doctest::Approx(13));
  step.costs.passes = 2;  // each of 24 ms as recorded
  step.costs.step_ms = 48;
  CHECK(step.predict(placed({{2, TensorPlacement::recompute}})).step_ms == doctest::Approx(52));
}

TEST_CASE("an op that reads a result stops the host until the device has done it") {
  Step step = host_bound();
  step.costs.issue.runs[kLoss].waits = true;  // the host goes on at 16
  step.costs.step_ms = 25;
  CHECK(StepPredictor(step.facts, step.costs).tables().scale == doctest::Approx(1));
  step.costs.issue.moments[0].waits = true;  // v3: 17 to 19; then it would go on at 18
  step.costs.step_ms = 28;                   // v2: 20 to 22, v1 to 24, v0 to 26
  CHECK(StepPredictor(step.facts, step.costs).tables().scale == doctest::Approx(28.0 / 26));
  step.costs.step_ms = 26;
  CHECK(step.predict({}).step_ms == doctest::Approx(26));
}

TEST_CASE("the engines' hooks and copies take time of the host under plans that use them") {
  Step step = host_bound();
  step.costs.issue.engine_ms = 1;  // 0.1 for each of 5 ops, of 4 unpacks, and for the end of the forward
  CHECK(step.predict({}).step_ms == doctest::Approx(24));
  // op4 is issued at 15.5, v3 at 16.7, op2 again at 19.8, v2 at 20.9. Compute has ended with op2 at 20.8.
  CHECK(step.predict(placed({{2, TensorPlacement::recompute}})).step_ms == doctest::Approx(26.9));
  step.costs.issue.engine_ms = 0;
  step.costs.issue.copy_ms = 0.25;  // v0 goes before op1 ends, and comes back when compute is behind the host
  CHECK(step.predict(placed({{0, TensorPlacement::host}})).step_ms == doctest::Approx(24.25));
}

TEST_CASE("the optimizer starts when backward has ended and takes what it is issued in at least") {
  Step step = host_bound();
  step.costs.after_ms = 2;
  step.costs.issue.after_ms = 9;  // issued from 19 to 28
  step.costs.step_ms = 28;
  CHECK(StepPredictor(step.facts, step.costs).tables().scale == doctest::Approx(1));
  CHECK(step.predict(placed({{2, TensorPlacement::recompute}})).step_ms == doctest::Approx(31));
}

}  // namespace memtune::step_predictor_test
