// The reason why a plan did nothing is made of facts, and its advice does something.
#include "core/plan/no_effect.h"

#include <doctest/doctest.h>

#include "core/config/strategy.h"
#include "core/plan/strategy.h"
#include "tests/plan/program.h"

using namespace memtune;
using test::Builder;

namespace {

std::string why(const std::string& strategy, const config::ProgramFacts& facts) {
  return plan::why_no_effect(plan::make_plan(config::Strategy::parse(strategy), facts), facts);
}

// Four values of these bytes in a block.
config::ProgramFacts facts(int64_t bytes) {
  Builder build;
  build.facts.blocks = {{"layers.0"}};
  build.block = 0;
  int value = build.input();
  for (int i = 0; i < 4; ++i) {
    build.op("aten::silu", {value});
    value = build.measured(bytes, true);
  }
  return build.facts;
}

}  // namespace

TEST_CASE("values that are too small are told with the size from which on most would move") {
  CHECK(why("offload:stream", facts(300 << 10)) == "every value is below min=1MiB; min=256KiB would move 1.17 MiB");
  CHECK(why("offload:sync,min=2MiB", facts(100 << 10)) ==
        "every value is below min=2MiB; min=32KiB would move 400 KiB");
}

TEST_CASE("where size is not the reason it is not told as such") {
  CHECK(why("offload:stream,fraction=0", facts(2 << 20)) == "it finds no value of this model to place elsewhere");
  CHECK(why("none", facts(300 << 10)) == "it finds no value of this model to place elsewhere");
  CHECK(why("checkpoint:full", facts(300 << 10)) == "backward needs none of the values that it places elsewhere");
}
