// A step that one machine measured, as another takes it: 4 ops, each with its backward, on round numbers. The machine
// at hand multiplies 1e9 a ms and moves 1e6 bytes.
//
//   v0 = silu(x)   v1 = matmul(v0, x)   v2 = silu(v1)   loss = sum(v2), values of 1e6 bytes, the matmul of 4e9 flops
#include "core/plan/planner/machine_scaled_costs.h"

#include <doctest/doctest.h>

#include <random>

#include "core/base/error.h"
#include "core/plan/planner/step_predictor.h"

using namespace memtune;
using plan::MachineProfile;
using plan::StepCosts;
using planner::MachineScaledCosts;
using planner::scale_costs;
using Kind = StepCosts::Moment::Kind;

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
  StepCosts costs;

  MachineScaledCosts on(const MachineProfile& to) const { return scale_costs(facts, costs, kHere, to, "bfloat16"); }
};

// `busy`: of its roofline's time each op takes so much; the host is ahead.
Step step(double busy = 2) {
  Step step;
  const char* names[] = {"aten::silu", "aten::matmul", "aten::silu", "aten::sum"};
  step.costs.values.push_back({.run = -1, .bytes = 1'000'000});
  for (int i = 0; i < 4; ++i) {
    plan::OpFacts op;
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

TEST_CASE("on the machine that measured a step is what it was, also under another name") {
  const Step one = step();
  const MachineScaledCosts same = one.on(kHere);
  CHECK((same.likely == one.costs && same.least == one.costs && same.most == one.costs));
  MachineProfile linked = kHere;
  linked.link_out_gb_per_s = 50;
  CHECK(scale_costs(one.facts, one.costs, linked, linked, "bfloat16").likely == one.costs);  // the link's too
  MachineProfile alike = kHere;
  alike.name = "alike";
  CHECK(one.on(alike).likely == one.costs);
  CHECK(one.on(alike).least == one.costs);
  CHECK(one.on(alike).most == one.costs);
}

TEST_CASE("a faster memory shortens what it bounds, faster arithmetic the rest, and the share of the peak is kept") {
  const Step one = step();
  const StepCosts memory = one.on(machine(1, 4)).likely;
  CHECK(memory.runs[0].ms == doctest::Approx(1));
  CHECK(memory.runs[1].ms == doctest::Approx(8));
  CHECK(memory.moments[4].ms == doctest::Approx(16));  // of the matmul
  CHECK(memory.moments[6].ms == doctest::Approx(2));
  CHECK(memory.before_ms == doctest::Approx(0.125));
  CHECK(memory.after_ms == doctest::Approx(0.75));
  CHECK(memory.step_ms == doctest::Approx(0.875 + 2 * (12 + 15 / 4.)));
  const StepCosts arithmetic = one.on(machine(1.25, 1)).likely;
  CHECK(arithmetic.runs[0].ms == doctest::Approx(4));
  CHECK(arithmetic.runs[1].ms == doctest::Approx(8 / 1.25));
  CHECK(one.on(machine(100, 1)).likely.runs[1].ms == doctest::Approx(6));  // then 3 ms of memory bound it, not 4
}

TEST_CASE("the range is what the roofline does not explain: with arithmetic, with memory, or as it was") {
  const MachineScaledCosts all = step().on(machine(1, 4));
  CHECK(all.least.runs[1].ms == doctest::Approx(4 + 4 / 4.));
  CHECK(all.most.runs[1].ms == doctest::Approx(4 + 4));
  CHECK(all.least.runs[0].ms == doctest::Approx(1));
  CHECK(all.most.runs[0].ms == doctest::Approx(2 / 4. + 2));
  const MachineScaledCosts near = step(1).on(machine(1, 4));  // nothing is left to explain
  CHECK(near.least.runs[0].ms == doctest::Approx(0.5));
  CHECK(near.most.runs[0].ms == doctest::Approx(0.5));
  CHECK(near.least.runs[1].ms == doctest::Approx(4));
}

TEST_CASE("of an op far from its roofline the part that others reach goes with it, the rest with the middle of three") {
  Step one = step();
  one.costs.runs[2].ms = 20;  // 2 ms of memory, which others move in 4
  CHECK(one.on(machine(1, 4)).likely.runs[2].ms == doctest::Approx(4 / 4. + 16));
  CHECK(one.on(machine(1, 4)).least.runs[2].ms == doctest::Approx(20 / 4.));
  CHECK(one.on(machine(1, 4)).most.runs[2].ms == doctest::Approx(2 / 4. + 18));
  MachineProfile all_faster = machine(1, 4);
  all_faster.tflops["float32"] = 2;
  CHECK(one.on(all_faster).likely.runs[2].ms == doctest::Approx(4 / 4. + 16 / 2.));
  one.costs.runs[1].ms = 40;  // 4 ms of arithmetic; its backward takes twice its roof
  CHECK(one.on(machine(4 / 3., 1)).likely.runs[1].ms == doctest::Approx(8 * 0.75 + 32));
  one.facts.ops[1].flops = 0;  // now it multiplies as much as nobody knows
  CHECK(one.on(machine(2, 1)).likely.runs[1].ms == doctest::Approx(40 / 2.));
  CHECK(one.on(machine(2, 1)).most.runs[1].ms == doctest::Approx(40));
}

TEST_CASE("what follows each of the tensors that one op saved has its share of the op's roofline") {
  Step one = step();
  one.costs.saved.push_back({.value = 0, .run = 1});
  one.costs.runs[1].saves.push_back(4);
  one.costs.moments[4].ms = 8;
  one.costs.moments.insert(one.costs.moments.begin() + 5, {Kind::unpack, 4, 8, 0.01, 900, 950});
  const MachineScaledCosts all = one.on(machine(1, 4));
  for (const int moment : {4, 5}) {
    CHECK(all.least.moments[moment].ms == doctest::Approx(4 + 4 / 4.));
    CHECK(all.likely.moments[moment].ms == doctest::Approx(8));
  }
}

TEST_CASE("memory stays as it was, and the link is the other machine's where it is known") {
  Step one = step();
  MachineProfile to = machine(2, 4);
  CHECK(one.on(to).likely.out_gb_per_s == 20);
  to.link_out_gb_per_s = 50;
  to.link_in_gb_per_s = 40;
  one.costs.copy_slowdown = 0.1;  // of the memory copies now take 45 / 4 where they took 20
  const StepCosts scaled = one.on(to).most;
  CHECK(scaled.copy_slowdown == doctest::Approx(0.1 * 45 / 20 / 4));
  CHECK((scaled.out_gb_per_s == 50 && scaled.in_gb_per_s == 40));
  CHECK(scaled.runs[2].before_bytes == 100);
  CHECK(scaled.moments[2].peak_bytes == 950);
  CHECK(scaled.grain_bytes == 512);
  const planner::StepPredictor model(one.facts, scaled), before(one.facts, one.costs);
  CHECK(model.predict({}).peak_bytes == before.predict({}).peak_bytes);
}

TEST_CASE("a device that waits for the host gets no faster, and slower only once its own work takes longer") {
  Step one = step(10);
  for (auto& run : one.costs.runs) run.host_ms = run.ms;
  for (auto& moment : one.costs.moments) moment.host_ms = moment.ms;
  const StepCosts fast = one.on(machine(10, 10)).likely;
  for (size_t i = 0; i < 4; ++i) CHECK(fast.runs[i].ms == doctest::Approx(one.costs.runs[i].ms));
  for (size_t i = 0; i < 8; ++i) CHECK(fast.moments[i].ms == doctest::Approx(one.costs.moments[i].ms));
  CHECK(one.on(machine(1 / 3., 1 / 3.)).likely.runs[1].ms == doctest::Approx(40));
  CHECK(one.on(machine(0.05, 0.05)).likely.runs[1].ms == doctest::Approx(80));
  CHECK(one.on(machine(0.05, 0.05)).most.runs[1].ms == doctest::Approx(800));
}

TEST_CASE("a host that only recording made slow does not bound the step elsewhere either") {
  Step one = step(2);
  for (auto& run : one.costs.runs) run.ms = run.host_ms = 10;
  for (auto& moment : one.costs.moments)
    if (moment.kind == Kind::unpack) moment.ms = moment.host_ms = 10;
  one.costs.step_ms = 3.5 + 27;  // nobody waited in it: it is what the roofline takes
  const MachineScaledCosts fast = one.on(machine(1, 4));
  CHECK(fast.least.step_ms == doctest::Approx(0.5 + 0.75 + 12 + 15 / 4.).epsilon(0.01));
  CHECK(fast.likely.runs[1].ms == doctest::Approx(4));
  CHECK(fast.likely.step_ms < 20);
  CHECK(fast.most.step_ms == doctest::Approx(24.7).epsilon(0.01));  // a host that takes 2 ms each is not seen here
  one.costs.step_ms = 3.5 + 80;                                     // and this one waited for it all the time
  CHECK(one.on(machine(1, 4)).likely.step_ms > 78);
}

TEST_CASE("a view takes nothing of the device, however long the host takes for it") {
  Step one = step(10);
  for (auto& run : one.costs.runs) run.host_ms = run.ms, run.makes.clear();
  for (auto& moment : one.costs.moments) moment.host_ms = moment.ms;
  CHECK(one.on(machine(0.01, 0.01)).likely.runs[0].ms == doctest::Approx(20));
}

TEST_CASE("a host that waits for room in the queue of a busy device does not bound it") {
  Step one = step();
  const StepCosts pass = one.costs;
  for (int i = 0; i < 3; ++i) one.costs.runs.insert(one.costs.runs.end(), pass.runs.begin(), pass.runs.end());
  for (size_t i = 8; i < 16; ++i) one.costs.runs[i].host_ms = one.costs.runs[i].ms;  // it is far ahead by then
  const StepCosts fast = one.on(machine(1, 4)).likely;
  for (size_t i = 0; i < 16; i += 4) CHECK(fast.runs[i].ms == doctest::Approx(1));
}

TEST_CASE("an op at which the host waits for the device scales with what the device does") {
  Step one = step();
  one.costs.runs[2].host_ms = 16;  // 4 + 8 + 4 of the device
  const StepCosts fast = one.on(machine(4, 4)).likely;
  CHECK(fast.runs[2].ms == doctest::Approx(1));
}

TEST_CASE("where the processor plays the device there is no host beside it") {
  Step one = step();
  one.costs.grain_bytes = 1;
  for (auto& run : one.costs.runs) run.host_ms = run.ms;
  CHECK(one.on(machine(1, 4)).likely.runs[0].ms == doctest::Approx(1));
}

TEST_CASE("at least is never more, and at most never less") {
  std::mt19937 random(7);
  const auto around = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  for (int i = 0; i < 300; ++i) {
    Step one = step(around(0.3, 8));
    for (auto& run : one.costs.runs) run.host_ms = around(0, 8), run.ms *= around(0.1, 2);
    for (auto& moment : one.costs.moments)
      if (moment.kind == Kind::unpack) moment.host_ms = around(0, 8), moment.ms *= around(0.1, 2);
    const MachineScaledCosts all = one.on(machine(around(0.1, 9), around(0.1, 9)));
    CHECK(all.least.step_ms <= all.likely.step_ms * (1 + 1e-9));
    CHECK(all.likely.step_ms <= all.most.step_ms * (1 + 1e-9));
  }
}
