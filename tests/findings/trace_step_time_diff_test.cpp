// Trials are compared by name, one step of each. The difference must have the right amount and cause.
#include "core/answer/findings/trace_step_time_diff.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/findings/made_up.h"

namespace memtune::trace_diff_test {

using namespace memtune::findings;
using memtune::trace::EventKind;
using memtune::trace::Pass;
using memtune::trace::TraceRegionKey;

namespace {

constexpr int64_t kMs = MadeUp::kMs;

const StepPartDiff& part(const TraceStepTimeDiff& diff, const std::string& name) {
  const auto found = std::ranges::find(diff.parts, name, &StepPartDiff::name);
  REQUIRE(found != diff.parts.end());
  return *found;
}

// Two steps of 100 + `late` ms. layers.0 backward computes for 10 ms after it waited `late` ms for a copy.
MadeUp steps_of(double late) {
  MadeUp made;
  for (int step = 0; step < 2; ++step) {
    const double start = step * (100 + late);
    made.step(start, start + 100 + late);
    made.kernel(start, start + 90);
    made.add(EventKind::copy_in, start + 80, start + 90 + late, "", MadeUp::kMiB);
    made.kernel(start + 90 + late, start + 100 + late);
    made.region(start + 90, start + 100 + late, TraceRegionKey::of_block(0, Pass::backward), "layers.0 backward");
  }
  return made;
}

}  // namespace

TEST_CASE("a block that waits for a copy is reported with the copy") {
  const TraceStepTimeDiff found = diff(steps_of(0).trace, steps_of(6).trace);
  CHECK(found.a_ms == doctest::Approx(100));
  CHECK(found.b_ms == doctest::Approx(106));
  const StepPartDiff& block = part(found, "layers.0 backward");
  CHECK(block.a_ms == doctest::Approx(10));
  CHECK(block.b_ms == doctest::Approx(16));
  CHECK(sentence(block) == "layers.0 backward +6.0 ms: copies in exposed +6.0 ms");
  CHECK(block.in_b.start == 90 * kMs);
  CHECK(block.in_b.end == 106 * kMs);
  CHECK(part(found, "copies in exposed").delta_ms() == doctest::Approx(6));
  CHECK(part(found, "compute").delta_ms() == doctest::Approx(0));
}

TEST_CASE("the reverse diff has negative differences and the largest comes first") {
  const TraceStepTimeDiff found = diff(steps_of(6).trace, steps_of(0).trace);
  CHECK(sentence(part(found, "layers.0 backward")) == "layers.0 backward -6.0 ms: copies in exposed -6.0 ms");
  CHECK(std::abs(found.parts[0].delta_ms()) >= std::abs(found.parts.back().delta_ms()));
  CHECK(found.parts.back().delta_ms() == doctest::Approx(0));
}

TEST_CASE("a part in only one trace counts from zero") {
  MadeUp b = steps_of(0);
  b.region(30, 34, TraceRegionKey::of_block(0, Pass::recompute), "layers.0 recompute");
  b.region(130, 134, TraceRegionKey::of_block(0, Pass::recompute), "layers.0 recompute");
  const TraceStepTimeDiff found = diff(steps_of(0).trace, b.trace);
  CHECK(sentence(part(found, "layers.0 recompute")) == "layers.0 recompute +4.0 ms: compute +4.0 ms");
  CHECK(part(found, "layers.0 recompute").in_a.end == 0);
}

TEST_CASE("the compared steps have median length") {
  MadeUp made;
  made.step(0, 130);
  made.step(200, 300);
  made.step(300, 410);
  const TraceStepTimeDiff found = diff(made.trace, made.trace);
  CHECK(found.a_step.start == 300 * kMs);
  CHECK(found.b_step.end == 410 * kMs);
}

TEST_CASE("blocks are also summed because small differences add up") {
  MadeUp a, b;
  for (MadeUp* made : {&a, &b}) {
    made->step(0, 100);
    for (int block = 0; block < 3; ++block) {
      const double start = 10.0 * block, length = made == &a ? 2 : 3;
      made->kernel(start, start + length);
      made->region(start, start + length, TraceRegionKey::of_block(block), "layers." + std::to_string(block));
      made->region(start + 50, start + 51, TraceRegionKey::of_block(block, Pass::backward),
                   "layers." + std::to_string(block) + " backward");
    }
  }
  const TraceStepTimeDiff found = diff(a.trace, b.trace);
  CHECK(sentence(part(found, "all blocks forward")) == "all blocks forward +3.0 ms: compute +3.0 ms");
  CHECK(part(found, "layers.1").delta_ms() == doctest::Approx(1));
  CHECK(part(found, "all blocks backward").delta_ms() == 0);
}

TEST_CASE("an empty trace can be compared") {
  const TraceStepTimeDiff found = diff({}, steps_of(0).trace);
  CHECK(found.a_ms == 0);
  CHECK(found.b_ms == doctest::Approx(100));
  CHECK(found.parts.size() == kDeviceParts.size() + 2);  // the block and all blocks
}

}  // namespace memtune::trace_diff_test
