// Costs of a step, scaled from one machine to another: 4 ops, each with its backward, on round numbers. The machine
// that measured computes 1e9 flops and transfers 1e6 bytes per ms.
//
//   v0 = silu(x)   v1 = matmul(v0, x)   v2 = silu(v1)   loss = sum(v2), values of 1e6 bytes, the matmul of 4e9 flops
#include "core/plan/planner/cost_range_converted_to_other_machine.h"

#include <doctest/doctest.h>

#include <random>

#include "core/base/error.h"
#include "core/plan/planner/step_predictor.h"

namespace memtune::machine_scaled_costs_test {

using namespace memtune;
using plan::MachineProfile;
using plan::RecordedStepCosts;
using planner::CostRangeConvertedToOtherMachine;
using planner::scale_costs;
using Kind = RecordedStepCosts::Moment::Kind;

namespace {

MachineProfile machine(double tflops, double memory_gb_per_s) {
  MachineProfile machine;
  machine.name = "m" + std::to_string(tflops);
  machine.tflops = {{"float32", 1}, {"bfloat16", tflops}};
  machine.memory_gb_per_s = memory_gb_per_s;
  return machine;
}

const MachineProfile kHere = machine(1, 1);

struct Step {
  plan::ProgramFacts facts;
  RecordedStepCosts costs;

  CostRangeConvertedToOtherMachine on(const MachineProfile& to) const {
    return scale_costs(facts, costs, kHere, to, "bfloat16");
  }
};

// `busy`: time of each op as a multiple of its roofline time. The host runs ahead.
Step step(double busy = 2) {
  Step step;
  const char* names[] = {"aten::silu", "aten::matmul", "aten::silu", "aten::sum"};
  step.costs.values.push_back({.run = -1, .bytes = 1'000'000});
  for (int i = 0; i < 4; ++i) {
    plan::ProgramOpFacts op;
    op.name = names[i];
    op.op_class = plan::traits_of(op.name).op_class;
    op.flops = i == 1 ? 4e9 : 0;
    op.dtype = i == 1 ? "bfloat16" : "";
    op.outputs = {i + 1};
    step.facts.ops.push_back(op);
    step.costs.values.push_back({.run = i, .bytes = i == 3 ? 0 : 1'000'000});
    step.costs.runs.push_back(
        {.op = i, .host_ms = 0.01, .before_bytes = 100, .own_bytes = 50, .reads = {i}, .makes = {i + 1}, .saves = {i}});
    step.costs.saved.push_back({.value = i, .run = i});
  }
  step.costs.runs[1].reads.push_back(0);
  const double roofs[] = {2, 4, 2, 1};
  for (int i = 0; i < 4; ++i) step.costs.runs[i].ms = busy * roofs[i];
  for (int i = 3; i >= 0; --i) {
    step.costs.moments.push_back({Kind::unpack, i, busy * 2 * roofs[i], 0.01, 900, 950});
    step.costs.moments.push_back({Kind::end, i, 0, 0, 900, 900});
  }
  step.costs.grain_bytes = 512;
  step.costs.before_ms = 0.5;
  step.costs.after_ms = 3;
  step.costs.step_ms = 3.5 + busy * 27;
  step.costs.out_gb_per_s = step.costs.in_gb_per_s = 20;
  return step;
}

}  // namespace

TEST_CASE("costs stay unchanged on the machine that measured even under another name") {
  const Step one = step();
  const CostRangeConvertedToOtherMachine same = one.on(kHere);
  CHECK((same.likely == one.costs && same.least == one.costs && same.most == one.costs));
  MachineProfile linked = kHere;
  linked.link_out_gb_per_s = 50;
  CHECK(scale_costs(one.facts, one.costs, linked, linked, "bfloat16").likely == one.costs);  // the PCIe bandwidth too
  MachineProfile alike = kHere;
  alike.name = "alike";
  CHECK(one.on(alike).likely == one.costs);
  CHECK(one.on(alike).least == one.costs);
  CHECK(one.on(alike).most == one.costs);
}

TEST_CASE("faster memory and arithmetic shorten the ops that they bound and keep the share of the peak") {
  const Step one = step();
  const RecordedStepCosts memory = one.on(machine(1, 4)).likely;
  CHECK(memory.runs[0].ms == doctest::Approx(1));
  CHECK(memory.runs[1].ms == doctest::Approx(8));
  CHECK(memory.moments[4].ms == doctest::Approx(16));  // of the matmul
  CHECK(memory.moments[6].ms == doctest::Approx(2));
  CHECK(memory.before_ms == doctest::Approx(0.125));
  CHECK(memory.after_ms == doctest::Approx(0.75));
  CHECK(memory.step_ms == doctest::Approx(0.875 + 2 * (12 + 15 / 4.)));
  const RecordedStepCosts arithmetic = one.on(machine(1.25, 1)).likely;
  CHECK(arithmetic.runs[0].ms == doctest::Approx(4));
  CHECK(arithmetic.runs[1].ms == doctest::Approx(8 / 1.25));
  CHECK(one.on(machine(100, 1)).likely.runs[1].ms == doctest::Approx(6));  // then 3 ms of memory bound it, not 4
}

TEST_CASE("the range scales time above the roofline with arithmetic or memory or keeps it") {
  const CostRangeConvertedToOtherMachine all = step().on(machine(1, 4));
  CHECK(all.least.runs[1].ms == doctest::Approx(4 + 4 / 4.));
  CHECK(all.most.runs[1].ms == doctest::Approx(4 + 4));
  CHECK(all.least.runs[0].ms == doctest::Approx(1));
  CHECK(all.most.runs[0].ms == doctest::Approx(2 / 4. + 2));
  const CostRangeConvertedToOtherMachine near = step(1).on(machine(1, 4));  // no time is above the roofline
  CHECK(near.least.runs[0].ms == doctest::Approx(0.5));
  CHECK(near.most.runs[0].ms == doctest::Approx(0.5));
  CHECK(near.least.runs[1].ms == doctest::Approx(4));
}

TEST_CASE("an op far from its roofline scales up to the usual share and the rest by the middle ratio") {
  Step one = step();
  one.costs.runs[2].ms = 20;  // 2 ms of memory, for which others take 4
  CHECK(one.on(machine(1, 4)).likely.runs[2].ms == doctest::Approx(4 / 4. + 16));
  CHECK(one.on(machine(1, 4)).least.runs[2].ms == doctest::Approx(20 / 4.));
  CHECK(one.on(machine(1, 4)).most.runs[2].ms == doctest::Approx(2 / 4. + 18));
  MachineProfile all_faster = machine(1, 4);
  all_faster.tflops["float32"] = 2;
  CHECK(one.on(all_faster).likely.runs[2].ms == doctest::Approx(4 / 4. + 16 / 2.));
  one.costs.runs[1].ms = 40;  // 4 ms of arithmetic; its backward takes twice its roof
  CHECK(one.on(machine(4 / 3., 1)).likely.runs[1].ms == doctest::Approx(8 * 0.75 + 32));
  one.facts.ops[1].flops = 0;  // now its flops are unknown
  CHECK(one.on(machine(2, 1)).likely.runs[1].ms == doctest::Approx(40 / 2.));
  CHECK(one.on(machine(2, 1)).most.runs[1].ms == doctest::Approx(40));
}

TEST_CASE("each saved tensor of an op has its share of the op's roofline in backward") {
  Step one = step();
  one.costs.saved.push_back({.value = 0, .run = 1});
  one.costs.runs[1].saves.push_back(4);
  one.costs.moments[4].ms = 8;
  one.costs.moments.insert(one.costs.moments.begin() + 5, {Kind::unpack, 4, 8, 0.01, 900, 950});
  const CostRangeConvertedToOtherMachine all = one.on(machine(1, 4));
  for (const int moment : {4, 5}) {
    CHECK(all.least.moments[moment].ms == doctest::Approx(4 + 4 / 4.));
    CHECK(all.likely.moments[moment].ms == doctest::Approx(8));
  }
}

TEST_CASE("memory stays unchanged and PCIe bandwidth is the other machine's if known") {
  Step one = step();
  MachineProfile to = machine(2, 4);
  CHECK(one.on(to).likely.out_gb_per_s == 20);
  to.link_out_gb_per_s = 50;
  to.link_in_gb_per_s = 40;
  one.costs.copy_slowdown = 0.1;  // copies now take 45 / 4 of the memory instead of 20
  const RecordedStepCosts scaled = one.on(to).most;
  CHECK(scaled.copy_slowdown == doctest::Approx(0.1 * 45 / 20 / 4));
  CHECK((scaled.out_gb_per_s == 50 && scaled.in_gb_per_s == 40));
  CHECK(scaled.runs[2].before_bytes == 100);
  CHECK(scaled.moments[2].peak_bytes == 950);
  CHECK(scaled.grain_bytes == 512);
  const planner::StepPredictor model(one.facts, scaled), before(one.facts, one.costs);
  CHECK(model.predict({}).peak_bytes == before.predict({}).peak_bytes);
}

TEST_CASE("a device that waits for the host gets slower only if its own work takes longer") {
  Step one = step(10);
  for (auto& run : one.costs.runs) run.host_ms = run.ms;
  for (auto& moment : one.costs.moments) moment.host_ms = moment.ms;
  const RecordedStepCosts fast = one.on(machine(10, 10)).likely;
  for (size_t i = 0; i < 4; ++i) CHECK(fast.runs[i].ms == doctest::Approx(one.costs.runs[i].ms));
  for (size_t i = 0; i < 8; ++i) CHECK(fast.moments[i].ms == doctest::Approx(one.costs.moments[i].ms));
  CHECK(one.on(machine(1 / 3., 1 / 3.)).likely.runs[1].ms == doctest::Approx(40));
  CHECK(one.on(machine(0.05, 0.05)).likely.runs[1].ms == doctest::Approx(80));
  CHECK(one.on(machine(0.05, 0.05)).most.runs[1].ms == doctest::Approx(800));
}

TEST_CASE("a host that is slow only while recording does not bound the step elsewhere") {
  Step one = step(2);
  for (auto& run : one.costs.runs) run.ms = run.host_ms = 10;
  for (auto& moment : one.costs.moments)
    if (moment.kind == Kind::unpack) moment.ms = moment.host_ms = 10;
  one.costs.step_ms = 3.5 + 27;  // no waiting: the step takes its roofline time
  const CostRangeConvertedToOtherMachine fast = one.on(machine(1, 4));
  CHECK(fast.least.step_ms == doctest::Approx(0.5 + 0.75 + 12 + 15 / 4.).epsilon(0.01));
  CHECK(fast.likely.runs[1].ms == doctest::Approx(4));
  CHECK(fast.likely.step_ms < 20);
  CHECK(fast.most.step_ms == doctest::Approx(24.7).epsilon(0.01));  // a host of 2 ms per op is not seen here
  one.costs.step_ms = 3.5 + 80;                                     // this step always waited for the host
  CHECK(one.on(machine(1, 4)).likely.step_ms > 78);
}

TEST_CASE("a view takes no device time even if the host takes long for it") {
  Step one = step(10);
  for (auto& run : one.costs.runs) run.host_ms = run.ms, run.makes.clear();
  for (auto& moment : one.costs.moments) moment.host_ms = moment.ms;
  CHECK(one.on(machine(0.01, 0.01)).likely.runs[0].ms == doctest::Approx(20));
}

TEST_CASE("a host that waits for room in the queue of a busy device does not bound it") {
  Step one = step();
  const RecordedStepCosts pass = one.costs;
  for (int i = 0; i < 3; ++i) one.costs.runs.insert(one.costs.runs.end(), pass.runs.begin(), pass.runs.end());
  for (size_t i = 8; i < 16; ++i) one.costs.runs[i].host_ms = one.costs.runs[i].ms;  // it is far ahead by then
  const RecordedStepCosts fast = one.on(machine(1, 4)).likely;
  for (size_t i = 0; i < 16; i += 4) CHECK(fast.runs[i].ms == doctest::Approx(1));
}

TEST_CASE("an op that makes the host wait for the device scales with the device's work") {
  Step one = step();
  one.costs.runs[2].host_ms = 16;  // 4 + 8 + 4 of the device
  const RecordedStepCosts fast = one.on(machine(4, 4)).likely;
  CHECK(fast.runs[2].ms == doctest::Approx(1));
}

TEST_CASE("with issue times the device's own time is known and the host's stays") {
  Step one = step(2);
  for (const auto& run : one.costs.runs) one.costs.issue.runs.push_back({run.ms < 5 ? 10.0 : 0.1, false});
  for (size_t i = 0; i < one.costs.moments.size(); ++i) one.costs.issue.moments.push_back({0.01, false});
  const planner::StepPredictor recorded(one.facts, one.costs);
  one.costs.step_ms /= recorded.tables().scale;  // as recorded
  const RecordedStepCosts same = one.on(machine(1.0001, 1)).likely, fast = one.on(machine(1, 4)).likely;
  CHECK_FALSE(same.has_issue_times());
  CHECK(same.step_ms == doctest::Approx(one.costs.step_ms).epsilon(0.01));
  CHECK(same.runs[0].ms == doctest::Approx(10).epsilon(0.01));  // 4 ms of the device, and what it waits
  CHECK(fast.runs[0].ms == doctest::Approx(10).epsilon(0.01));
  CHECK(fast.runs[1].ms == doctest::Approx(8).epsilon(0.01));     // of arithmetic
  CHECK(fast.moments[6].ms == doctest::Approx(2).epsilon(0.01));  // of memory, issued long before
}

TEST_CASE("a device that the CPU emulates has no separate host") {
  Step one = step();
  one.costs.grain_bytes = 1;
  for (auto& run : one.costs.runs) run.host_ms = run.ms;
  CHECK(one.on(machine(1, 4)).likely.runs[0].ms == doctest::Approx(1));
}

TEST_CASE("the least estimate is at most the likely one and the most estimate at least that") {
  std::mt19937 random(7);
  const auto around = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  for (int i = 0; i < 300; ++i) {
    Step one = step(around(0.3, 8));
    for (auto& run : one.costs.runs) run.host_ms = around(0, 8), run.ms *= around(0.1, 2);
    for (auto& moment : one.costs.moments)
      if (moment.kind == Kind::unpack) moment.host_ms = around(0, 8), moment.ms *= around(0.1, 2);
    const CostRangeConvertedToOtherMachine all = one.on(machine(around(0.1, 9), around(0.1, 9)));
    CHECK(all.least.step_ms <= all.likely.step_ms * (1 + 1e-9));
    CHECK(all.likely.step_ms <= all.most.step_ms * (1 + 1e-9));
  }
}

}  // namespace memtune::machine_scaled_costs_test
