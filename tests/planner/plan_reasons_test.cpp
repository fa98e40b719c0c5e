// The reasons of a plan add up to its prediction, name every block once, and find the moment of the peak.
#include "core/plan/planner/plan_reasons.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/plan/planner/planner.h"
#include "tests/planner/costs.h"

namespace memtune::plan_reasons_test {

using namespace memtune;
using namespace memtune::planner;
using namespace memtune::test;
using Where = SamePolicyBlocksPlanExplanation::Where;

namespace {

struct Decoder {
  explicit Decoder(int blocks, double gb_per_s, int passes = 1)
      : facts(decoder(blocks)), costs(step_of(facts, decoder_ms(facts))) {
    costs.out_gb_per_s = costs.in_gb_per_s = gb_per_s;
    costs.passes = passes;
    costs.step_ms *= passes;
  }
  ProgramFacts facts;
  plan::RecordedStepCosts costs;
};

double sum(const PlanReasons& reasons, double SamePolicyBlocksPlanExplanation::*figure) {
  double sum = 0;
  for (const SamePolicyBlocksPlanExplanation& parts : reasons.parts) sum += parts.*figure;
  return sum;
}

}  // namespace

TEST_CASE("the reasons add up to the prediction and contain every block once") {
  for (const int passes : {1, 2})
    for (const double gb_per_s : {4.0, 40.0}) {
      const Decoder decoder(6, gb_per_s, passes);
      const Planner planner(decoder.facts, decoder.costs);
      const int64_t most = planner.predict({}).peak_bytes, least = planner.least_memory({}, "").predicted.peak_bytes;
      for (const int share : {2, 5, 8}) {
        const auto planned = planner.plan({least + (most - least) * share / 10, 0}, "");
        REQUIRE(planned);
        const StepPrediction& step = planned->predicted;
        const PlanReasons reasons = planner.reasons(*planned);
        std::vector<int> blocks;
        int64_t moved = 0;
        for (const SamePolicyBlocksPlanExplanation& parts : reasons.parts) {
          CHECK((parts.where == Where::blocks) == !parts.blocks.empty());
          CHECK((parts.freed_bytes > 0) == !parts.recomputed.empty());
          CHECK((parts.offloaded_bytes > 0) == !parts.moved.empty());
          blocks.insert(blocks.end(), parts.blocks.begin(), parts.blocks.end());
          moved += parts.offloaded_bytes;
        }
        std::ranges::sort(blocks);
        CHECK(blocks == std::vector<int>{0, 1, 2, 3, 4, 5});
        CHECK(passes * moved == step.out_bytes);
        CHECK(sum(reasons, &SamePolicyBlocksPlanExplanation::recompute_ms) == doctest::Approx(step.recompute_ms));
        CHECK(sum(reasons, &SamePolicyBlocksPlanExplanation::wait_ms) == doctest::Approx(step.wait_ms));
        CHECK(reasons.peak.bytes == step.peak_bytes);
      }
    }
}

TEST_CASE("with everything kept the peak is where it was recorded and the cheapest bytes are named") {
  const Decoder decoder(3, 4);
  const Planner planner(decoder.facts, decoder.costs);
  const auto planned = planner.plan({planner.predict({}).peak_bytes, 0}, "");
  REQUIRE(planned);
  const PlanReasons reasons = planner.reasons(*planned);
  const auto& moments = decoder.costs.moments;
  const auto top = std::ranges::max_element(moments, {}, &plan::RecordedStepCosts::Moment::peak_bytes);
  REQUIRE(top->peak_bytes > decoder.costs.runs.back().before_bytes + decoder.costs.runs.back().own_bytes - 1);
  const ProgramOpFacts& op = decoder.facts.ops[decoder.costs.runs[decoder.costs.saved[top->saved].run].op];
  CHECK(reasons.peak.bytes == planned->predicted.peak_bytes);
  CHECK(reasons.peak.op == op.name);
  CHECK(reasons.peak.block == op.block);
  const auto blocks = std::ranges::find(reasons.parts, Where::blocks, &SamePolicyBlocksPlanExplanation::where);
  REQUIRE(blocks != reasons.parts.end());
  CHECK(blocks->blocks.size() == 3);
  CHECK(blocks->freed_bytes + blocks->offloaded_bytes == 0);
  CHECK(blocks->next_bytes > 0);
  CHECK(blocks->next_ms > 0);
  CHECK(blocks->next_bytes < blocks->kept_bytes);
}

TEST_CASE("a peak in the optimizer update is reported as such") {
  Decoder decoder(2, 0);
  decoder.costs.after_peak_bytes = int64_t{1} << 40;
  const Planner planner(decoder.facts, decoder.costs);
  const auto planned = planner.plan({int64_t{1} << 41, 0}, "");
  REQUIRE(planned);
  CHECK(planner.reasons(*planned).peak.pass == PeakLocation::Pass::update);
}

}  // namespace memtune::plan_reasons_test
