// The reason why a plan has no effect follows from facts, and its advice has an effect.
#include "core/plan/rules/no_effect.h"

#include <doctest/doctest.h>

#include "core/plan/rules/strategy.h"
#include "core/plan/strategy/strategy.h"
#include "tests/plan/program.h"

namespace memtune::no_effect_test {

using namespace memtune;
using test::Builder;

namespace {

std::string why(const std::string& strategy, const plan::ProgramFacts& facts) {
  return plan::why_no_effect(plan::make_plan(plan::Strategy::parse(strategy), facts), facts);
}

// Four values of `bytes` in each block.
plan::ProgramFacts facts(int64_t bytes, int blocks = 1) {
  Builder build;
  int value = build.input();
  for (build.block = 0; build.block < blocks; ++build.block) {
    build.facts.blocks.push_back({"layers." + std::to_string(build.block)});
    for (int i = 0; i < 4; ++i) {
      build.op("aten::silu", {value});
      value = build.measured(bytes, true);
    }
  }
  return build.facts;
}

}  // namespace

TEST_CASE("too small values are reported with the min= that would offload most of them") {
  CHECK(why("offload:stream", facts(300 << 10)) ==
        "every activation is below min=1MiB; min=256KiB would offload 1.17 MiB");
  CHECK(why("offload:sync,min=2MiB", facts(100 << 10)) ==
        "every activation is below min=2MiB; min=32KiB would offload 400 KiB");
}

TEST_CASE("parts without an effect on backward are removed and others stay") {
  const plan::ProgramFacts large = facts(2 << 20, 2);
  const auto left = [&](const std::string& strategy) {
    return to_string(plan::without_idle_parts(plan::Strategy::parse(strategy), large));
  };
  CHECK(left("checkpoint:full,inputs=host+offload:stream") == "checkpoint:full,inputs=host");
  CHECK(left("checkpoint:full,inputs=host,blocks=0") == "checkpoint:full,blocks=0");  // its input is the program's
  CHECK(left("checkpoint:full,blocks=0+offload:stream,blocks=1") == "checkpoint:full,blocks=0+offload:stream,blocks=1");
  CHECK(left("checkpoint:op,save=silu+offload:stream") == "offload:stream");  // all that it would recompute is kept
  CHECK(left("offload:stream") == "offload:stream");
  plan::ProgramFacts unmeasured = large;
  for (plan::ProgramOpFacts& op : unmeasured.ops) op.output_bytes.clear(), op.output_saved.clear();
  CHECK(to_string(plan::without_idle_parts(plan::Strategy::parse("checkpoint:full+offload:stream"), unmeasured)) ==
        "checkpoint:full+offload:stream");
}

TEST_CASE("a plan without a strategy's name is reported with its min_bytes") {
  plan::Plan plan = plan::make_plan(plan::Strategy::parse("offload:stream"), facts(300 << 10));
  plan.strategy = "by hand";
  CHECK(plan::why_nothing_offloaded(plan, facts(300 << 10)) ==
        "every activation to offload is below its plan's min_bytes of 1 MiB; a plan file with a lower one would "
        "offload up to 1.17 MiB");
  CHECK(plan::why_nothing_offloaded(plan, facts(2 << 20)) == "");
}

TEST_CASE("why_no_effect names the size only if it is the reason") {
  CHECK(why("offload:stream,fraction=0", facts(2 << 20)) ==
        "it finds no activation of this model to offload or recompute");
  CHECK(why("none", facts(300 << 10)) == "it finds no activation of this model to offload or recompute");
  CHECK(why("checkpoint:full", facts(300 << 10)) ==
        "backward needs none of the activations that it offloads or recomputes");
}

}  // namespace memtune::no_effect_test
