// Tests what a plan prescribes for an op, looked up by its number.
#include "core/engine/step/op_plan.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
namespace memtune::step::op_plan_test {
namespace {

using plan::TensorPlacement;

plan::ProgramFacts three_ops() {
  plan::ProgramFacts facts;
  for (const char* name : {"aten::linear", "aten::batch_norm", "aten::mul"}) {
    facts.ops.emplace_back();
    facts.ops.back().name = name;
    facts.ops.back().outputs = {static_cast<int>(facts.ops.size())};
  }
  facts.ops[1].block = 4;
  facts.ops[2].after_blocks = true;
  return facts;
}

plan::OneOpActivationPlacements placed(int op, const char* name, std::vector<TensorPlacement> outputs,
                                       TensorPlacement saved) {
  return {.op = op, .name = name, .outputs = std::move(outputs), .saved = saved};
}

TEST_CASE("an op that the plan does not name keeps everything and is not recorded") {
  const auto facts = three_ops();
  const plan::Plan plan;
  const auto ops = plan_ops(facts, plan);
  REQUIRE(ops.size() == 3);
  CHECK_FALSE(ops[0].recomputes);
  CHECK(ops[0].output(0) == TensorPlacement::keep);
  CHECK(ops[0].saved() == TensorPlacement::keep);
  CHECK(ops[0].block == -1);
  CHECK(ops[1].block == 4);
  CHECK(ops[2].after_blocks);
}

TEST_CASE("an op is recorded only if an output or a private tensor of it is recomputed") {
  const auto facts = three_ops();
  plan::Plan plan;
  plan.placements = {placed(0, "aten::linear", {TensorPlacement::host}, TensorPlacement::keep),
                     placed(1, "aten::batch_norm", {TensorPlacement::recompute}, TensorPlacement::keep),
                     placed(2, "aten::mul", {}, TensorPlacement::recompute)};
  const auto ops = plan_ops(facts, plan);
  CHECK_FALSE(ops[0].recomputes);
  CHECK(ops[0].output(0) == TensorPlacement::host);
  CHECK(ops[0].output(1) == TensorPlacement::keep);
  CHECK(ops[1].recomputes);
  CHECK(ops[2].recomputes);
  CHECK(ops[2].saved() == TensorPlacement::recompute);
}

TEST_CASE("an op that reads a size or a type is not recorded whatever the plan says") {
  auto facts = three_ops();
  facts.ops[0].op_class = plan::OpClass::host;
  plan::Plan plan;
  plan.placements = {placed(0, "aten::linear", {TensorPlacement::recompute}, TensorPlacement::recompute)};
  CHECK_FALSE(plan_ops(facts, plan)[0].recomputes);
}

TEST_CASE("a plan for another program is refused") {
  const auto facts = three_ops();
  plan::Plan plan;
  plan.placements = {placed(0, "aten::mul", {TensorPlacement::host}, TensorPlacement::keep)};
  CHECK_THROWS_AS(plan_ops(facts, plan), UsageError);
}

}  // namespace
}  // namespace memtune::step::op_plan_test
