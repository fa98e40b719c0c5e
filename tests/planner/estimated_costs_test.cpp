// Times from a machine's rates, on round numbers: 1e9 flops and 1e6 bytes per ms. Shares of the roofline are tested as
// ratios alone, because they are figures of measured steps.
#include "core/plan/planner/estimated_costs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/plan/planner/step_predictor.h"

namespace memtune::estimated_costs_test {

using namespace memtune;
using plan::MachineProfile;
using plan::RecordedStepCosts;
using Kind = RecordedStepCosts::Moment::Kind;

namespace {

MachineProfile machine(double tflops, double memory_gb_per_s) {
  MachineProfile machine;
  machine.name = "m";
  machine.tflops = {{"bfloat16", tflops}};
  machine.memory_gb_per_s = memory_gb_per_s;
  machine.link_out_gb_per_s = 5;
  machine.link_in_gb_per_s = 6;
  return machine;
}

struct Step {
  plan::ProgramFacts facts;
  RecordedStepCosts costs;

  RecordedStepCosts on(const MachineProfile& card, const std::string& optimizer = "adamw") const {
    return planner::estimated_costs(facts, costs, card, "bfloat16", optimizer);
  }
};

// v0 = silu(x), v1 = matmul(v0, x) of `flops`, a view of v1, loss = sum(v1); values of 100 MB. Backward unpacks what
// silu, the matmul (both operands) and the sum saved.
Step step(double flops = 4e12) {
  Step step;
  const char* names[] = {"aten::silu", "aten::matmul", "aten::view", "aten::sum"};
  step.costs.values.push_back({.run = -1, .bytes = 100'000'000});
  for (int i = 0; i < 4; ++i) {
    plan::ProgramOpFacts op;
    op.name = names[i];
    op.op_class = plan::traits_of(op.name).op_class;
    op.flops = i == 1 ? flops : 0;
    op.dtype = i == 1 ? "bfloat16" : "";
    op.outputs = {i + 1};
    step.facts.ops.push_back(op);
    RecordedStepCosts::Run run{.op = i, .before_bytes = 100};
    if (i != 2) {
      const auto value = static_cast<int>(step.costs.values.size());
      step.costs.values.push_back({.run = i, .bytes = 100'000'000});
      run.reads = {value - 1};
      run.makes = {value};
    }
    step.costs.runs.push_back(run);
  }
  step.costs.runs[1].reads.push_back(0);
  for (const int run : {0, 1, 1, 3}) {
    step.costs.runs[static_cast<size_t>(run)].saves.push_back(static_cast<int>(step.costs.saved.size()));
    step.costs.saved.push_back({.value = 0, .run = run});
  }
  for (const int saved : {3, 2, 1, 0}) {
    step.costs.moments.push_back({.kind = Kind::unpack, .saved = saved});
    step.costs.moments.push_back({.kind = Kind::end, .saved = saved});
  }
  step.costs.states.units = {{"block", 0, 50'000'000, 7, 100'000'000}};
  return step;
}

double ms_of(const RecordedStepCosts& costs, int saved) {
  for (const RecordedStepCosts::Moment& moment : costs.moments)
    if (moment.kind == Kind::unpack && moment.saved == saved) return moment.ms;
  return -1;
}

}  // namespace

TEST_CASE("an op bound by arithmetic follows the card's rate, one bound by memory its bandwidth") {
  const RecordedStepCosts slow = step().on(machine(1, 1)), arithmetic = step().on(machine(2, 1)),
                          memory = step().on(machine(1, 2));
  CHECK(slow.runs[1].ms == doctest::Approx(2 * arithmetic.runs[1].ms));
  CHECK(slow.runs[1].ms == doctest::Approx(memory.runs[1].ms));
  CHECK(slow.runs[1].ms > 4000);  // no op reaches its roofline
  CHECK(slow.runs[1].ms < 10000);
  for (const size_t bound_by_memory : {0, 3}) {
    CHECK(slow.runs[bound_by_memory].ms == doctest::Approx(2 * memory.runs[bound_by_memory].ms));
    CHECK(slow.runs[bound_by_memory].ms == doctest::Approx(arithmetic.runs[bound_by_memory].ms));
    CHECK(slow.runs[bound_by_memory].ms > 200);
  }
  CHECK(slow.runs[2].ms == 0);  // a view has no kernel
}

TEST_CASE("backward of an op runs behind the last tensor that it unpacks") {
  const RecordedStepCosts costs = step().on(machine(1, 1));
  CHECK(ms_of(costs, 2) == 0);
  CHECK(ms_of(costs, 1) > costs.runs[1].ms);
  CHECK(ms_of(costs, 1) < 3 * costs.runs[1].ms);
  CHECK(ms_of(costs, 0) > 0);
  CHECK(ms_of(costs, 3) > 0);
}

TEST_CASE("the update moves parameters, gradients and states of what is trained") {
  const double ms = step().on(machine(1, 1)).after_ms;  // 3 x 50 MB and 2 x 100 MB
  CHECK(ms > 350);
  CHECK(ms < 1000);
  CHECK(step().on(machine(1, 2)).after_ms == doctest::Approx(ms / 2));
}

TEST_CASE("an update of 8-bit states, and Adafactor's, are far from the bandwidth") {
  const Step recorded = step();
  const MachineProfile card = machine(1, 1);
  const double ms = recorded.on(card).after_ms;
  CHECK(recorded.on(card, "sgd").after_ms == ms);
  CHECK(recorded.on(card, "adamw_8bit").after_ms > 3 * ms);
  CHECK(recorded.on(card, "paged_adamw_8bit").after_ms == recorded.on(card, "adamw_8bit").after_ms);
  CHECK(recorded.on(card, "adafactor").after_ms > recorded.on(card, "adamw_8bit").after_ms);
}

TEST_CASE("attention that keeps its scores is far from the roofline, and so is a convolution bound by memory") {
  const MachineProfile card = machine(1e6, 1);
  const auto first = [&](const char* name, int64_t private_bytes) {
    Step changed = step();
    plan::ProgramOpFacts& op = changed.facts.ops[1];
    op.name = name;
    op.op_class = plan::traits_of(name).op_class;
    op.output_bytes = {100'000'000};
    op.private_bytes = private_bytes;
    return changed.on(card).runs[1].ms;
  };
  const double fused_ms = first("aten::scaled_dot_product_attention", 1'000'000);
  CHECK(first("aten::scaled_dot_product_attention", 1'000'000'000) > 4 * fused_ms);
  CHECK(first("aten::conv2d", 0) > 4 * first("aten::matmul", 0));
}

TEST_CASE("the host takes longer to issue a matmul than other ops, and longest for its backward") {
  const RecordedStepCosts costs = step(1).on(machine(1e6, 1e6));
  const auto& runs = costs.issue.runs;
  CHECK(runs[1].ms > 3 * runs[0].ms);
  CHECK(runs[0].ms > runs[2].ms);  // a view
  double backward_ms = 0;
  for (const RecordedStepCosts::IssueTime& moment : costs.issue.moments) backward_ms = std::max(backward_ms, moment.ms);
  CHECK(backward_ms > runs[1].ms);
}

TEST_CASE("a step of small ops waits for its host") {
  const Step small = step(1);
  const RecordedStepCosts fast = small.on(machine(1e6, 1e6)), faster = small.on(machine(2e6, 2e6));
  CHECK(fast.step_ms == doctest::Approx(faster.step_ms).epsilon(0.05));
  CHECK(fast.step_ms > 0.1);
  CHECK(step().on(machine(1, 1)).step_ms > 1e4);
}

TEST_CASE("bytes stay, and the card's link counts") {
  const Step recorded = step();
  const RecordedStepCosts costs = recorded.on(machine(1, 1));
  CHECK(costs.values == recorded.costs.values);
  CHECK(costs.runs[0].before_bytes == 100);
  CHECK(costs.out_gb_per_s == 5);
  CHECK(costs.in_gb_per_s == 6);
}

}  // namespace memtune::estimated_costs_test
