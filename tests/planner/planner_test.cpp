// A plan fits its budget, and no other choice of block options is faster by more than one percent.
#include "core/plan/planner/planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/planner/costs.h"
#include "tests/support/samples.h"

namespace memtune::planner_test {

using namespace memtune;
using namespace memtune::planner;
using namespace memtune::test;

namespace {

struct Decoder {
  explicit Decoder(int blocks, double gb_per_s = 0) : facts(decoder(blocks)), costs(step_of(facts, decoder_ms(facts))) {
    costs.out_gb_per_s = costs.in_gb_per_s = gb_per_s;
  }
  ProgramFacts facts;
  plan::RecordedStepCosts costs;
};

// Returns the least time within the budget over all choices of one option per part.
std::optional<double> least_ms(const Decoder& decoder, int64_t budget_bytes) {
  const plan::OpMemoryAccessGraph graph(decoder.facts);
  const BlockOptionGenerationSettings limits{.outside = true};
  const auto parts = block_options(decoder.facts, graph, decoder.costs, limits);
  const StepPredictor model(decoder.facts, decoder.costs);
  std::vector<size_t> choice(parts.size());
  std::optional<double> least;
  for (;;) {
    std::vector<BlockOption> chosen;
    for (size_t i = 0; i < parts.size(); ++i) chosen.push_back(parts[i].options[choice[i]]);
    const StepPrediction step = model.predict(plan_of_options(chosen, decoder.facts, graph, limits, "one"));
    if (step.peak_bytes <= budget_bytes) least = std::min(least.value_or(step.step_ms), step.step_ms);
    size_t part = 0;
    while (part < parts.size() && ++choice[part] == parts[part].options.size()) choice[part++] = 0;
    if (part == parts.size()) return least;
  }
}

}  // namespace

TEST_CASE("plans use the disk only if host memory is short and they fit all three budgets") {
  const ProgramFacts facts = decoder(6);
  plan::RecordedStepCosts costs = step_of(facts, decoder_ms(facts));
  costs.out_gb_per_s = costs.in_gb_per_s = 25;
  costs.disk_write_gb_per_s = costs.disk_read_gb_per_s = 20;
  PlanMemoryBudgets limits{6656 * kMiB, 256 * kMiB, 0};
  const auto planned = [&](bool disk) {
    return Planner(facts, costs, tiers(limits, disk, false, costs)).plan(limits, "");
  };
  const auto without = planned(false), with = planned(true);
  REQUIRE(without);
  REQUIRE(with);
  CHECK(with->plan.places(plan::TensorPlacement::disk));
  CHECK_FALSE(without->plan.places(plan::TensorPlacement::disk));
  CHECK(with->predicted.step_ms < without->predicted.step_ms);
  CHECK(with->predicted.step_ms >= with->least_ms);
  CHECK(with->predicted.disk_peak_bytes > 0);
  CHECK(with->predicted.host_peak_bytes <= limits.host_budget_bytes);
  limits.disk_budget_bytes = with->predicted.disk_peak_bytes / 2;
  const auto tight = planned(true);
  REQUIRE(tight);
  CHECK(tight->predicted.disk_peak_bytes <= limits.disk_budget_bytes);
  CHECK(tight->predicted.step_ms >= with->predicted.step_ms);
  limits = {6656 * kMiB, 0, 0};  // unlimited host memory
  CHECK_FALSE(planned(true)->plan.places(plan::TensorPlacement::disk));
}

TEST_CASE("a plan is within one percent of the best choice under every budget") {
  for (const double gb_per_s : {0.0, 20.0, 100.0}) {
    const Decoder decoder(2, gb_per_s);
    const Planner planner(decoder.facts, decoder.costs);
    const int64_t most = planner.predict({}).peak_bytes;
    const int64_t least = planner.least_memory({}, "least").predicted.peak_bytes;
    REQUIRE(least < most);
    for (int i = 0; i <= 8; ++i) {
      if (!tests::is_sampled(i)) continue;
      const int64_t budget = most - (most - least) * i / 8;
      const auto planned = planner.plan({budget, 0}, "planned");
      const auto best = least_ms(decoder, budget);
      CAPTURE(gb_per_s);
      CAPTURE(budget / kMiB);
      REQUIRE(planned);
      REQUIRE(best);
      CHECK(planned->predicted.peak_bytes <= budget);
      CHECK(planned->predicted.step_ms <= 1.01 * *best);
      CHECK(planned->plan.strategy == "planned");
    }
  }
}

// Blocks of a caching allocator: what a plan allocates fits before its segments do.
TEST_CASE("plans run in the segments of a device of the budget's size, and more memory is never slower") {
  for (const double gb_per_s : {0.0, 50.0}) {
    Decoder decoder(4, gb_per_s);
    decoder.costs.grain_bytes = 512;
    const Planner planner(decoder.facts, decoder.costs);
    const int64_t most = planner.predict({}).required_bytes;
    const int64_t least = planner.least_memory({}, "least").predicted.required_bytes;
    std::vector<PlanMemoryBudgets> limits;
    for (int i = 0; i <= 8; ++i) limits.push_back({least + (most + most / 8 - least) * i / 8});
    const auto plans = planner.plan_budgets(limits, [](const PlanMemoryBudgets&) { return "planned"; });
    double slower_ms = std::numeric_limits<double>::infinity();
    int found = 0, safe = 0;
    for (size_t i = 0; i < limits.size(); ++i) {
      CAPTURE(gb_per_s);
      CAPTURE(limits[i].budget_bytes / kMiB);
      if (plans[i] && plans[i]->safe) {
        ++safe;
        const planner::StepPredictor predictor(decoder.facts, decoder.costs);
        CHECK(predictor.predict(plans[i]->plan, {}, nullptr, {limits[i].budget_bytes, true}).short_bytes == 0);
      }
      if (!plans[i] || plans[i]->predicted.short_bytes > 0) continue;  // none, or with expandable segments
      ++found;
      const StepPrediction step = planner.predict_on_device(plans[i]->plan, limits[i].budget_bytes);
      CHECK(step.short_bytes == 0);
      CHECK(step.required_bytes <= limits[i].budget_bytes);
      CHECK(step.step_ms <= slower_ms);
      slower_ms = step.step_ms;
      const auto alone = Planner(decoder.facts, decoder.costs).plan(limits[i], "alone");
      REQUIRE(alone);
      CHECK(alone->predicted.step_ms <= 1.03 * step.step_ms);
    }
    CHECK(found >= 5);
    CHECK(safe >= 5);
    CHECK(slower_ms == doctest::Approx(planner.predict({}).step_ms));  // everything fits the largest
  }
}

TEST_CASE("nothing changes if everything fits and no plan is returned if none fits") {
  const Decoder decoder(2, 20);
  const Planner planner(decoder.facts, decoder.costs);
  const auto kept = planner.plan({planner.predict({}).peak_bytes, 0}, "planned");
  REQUIRE(kept);
  CHECK(kept->plan.placements.empty());
  CHECK_FALSE(planner.plan({planner.least_memory({}, "least").predicted.peak_bytes / 2, 0}, "planned"));
}

TEST_CASE("a smaller budget is never faster and the host memory limit is kept") {
  const Decoder decoder(4, 50);
  const Planner planner(decoder.facts, decoder.costs);
  const int64_t most = planner.predict({}).peak_bytes, least = planner.least_memory({}, "least").predicted.peak_bytes;
  double before = 0;
  for (int i = 0; i <= 6; ++i) {
    const auto planned = planner.plan({most - (most - least) * i / 6, 0}, "planned");
    REQUIRE(planned);
    CHECK(planned->predicted.step_ms >= before - 0.01 * before);
    before = planned->predicted.step_ms;
  }
  const int64_t budget = (most + least) / 2;
  const auto free = planner.plan({budget, 0}, "planned"), bound = planner.plan({budget, 100 * kMiB}, "planned");
  REQUIRE(free);
  REQUIRE(bound);
  CHECK(free->predicted.host_peak_bytes > 100 * kMiB);
  CHECK(bound->predicted.host_peak_bytes <= 100 * kMiB);
  CHECK(bound->predicted.peak_bytes <= budget);
}

TEST_CASE("parameters and optimizer states are offloaded only if nothing else fits, and only where that is allowed") {
  for (const int blocks : {4, 6}) {
    Decoder decoder(blocks, 20);
    record_states(decoder.facts, decoder.costs);
    const Planner without(decoder.facts, decoder.costs), with(decoder.facts, decoder.costs, {.states = true});
    const int64_t most = with.predict({}).peak_bytes, resident = without.least_memory({}, "").predicted.peak_bytes,
                  least = with.least_memory({}, "").predicted.peak_bytes;
    CHECK(least < resident - 512 * kMiB);
    CHECK_FALSE(without.plan({resident - 1, 0}, "planned"));
    size_t offloaded = 0;
    for (int i = 0; i <= 6; ++i) {
      CAPTURE(i);
      const PlanMemoryBudgets limits{most - (most - least) * i / 6, 0};
      const auto planned = with.plan(limits, "planned");
      REQUIRE(planned);
      CHECK(planned->plan.offloads_states() == (limits.budget_bytes < resident));
      CHECK(planned->plan.states.size() >= offloaded);
      offloaded = planned->plan.states.size();
      CHECK(limits.satisfied_by(planned->predicted));
      CHECK(with.predict(planned->plan).peak_bytes == planned->predicted.peak_bytes);
      CHECK(planned->least_ms <= planned->predicted.step_ms);
      const auto budgets = with.plan_budgets({&limits, 1}, [](const PlanMemoryBudgets&) { return "planned"; });
      REQUIRE(budgets.front());
      CHECK(limits.satisfied_by(budgets.front()->predicted));
      CHECK(budgets.front()->plan.offloads_states() == planned->plan.offloads_states());
    }
    CHECK(offloaded >= decoder.facts.blocks.size());
    decoder.costs.passes = 2;
    const Planner accumulating(decoder.facts, decoder.costs, {.states = true});
    CHECK_FALSE(accumulating.plan({least, 0}, "planned"));
  }
}

TEST_CASE("parameters and optimizer states are offloaded if all other plans are slow") {
  Decoder decoder(6, 20);
  record_states(decoder.facts, decoder.costs);
  decoder.costs.rerun_ratio = 6;
  const Planner without(decoder.facts, decoder.costs), with(decoder.facts, decoder.costs, {.states = true});
  const PlanMemoryBudgets limits{without.least_memory({}, "").predicted.peak_bytes, 0};
  const auto resident = without.plan(limits, "planned"), planned = with.plan(limits, "planned");
  REQUIRE(resident);
  REQUIRE(planned);
  CHECK(resident->predicted.step_ms > 1.35 * with.predict({}).step_ms);
  CHECK(planned->plan.offloads_states());
  CHECK(planned->predicted.step_ms < resident->predicted.step_ms);
  const auto budgets = with.plan_budgets({&limits, 1}, [](const PlanMemoryBudgets&) { return "planned"; });
  REQUIRE(budgets.front());
  CHECK(budgets.front()->plan.offloads_states());
}

TEST_CASE("parameters and optimizer states are offloaded if a uniform plan is faster with that") {
  Decoder decoder(6, 20);
  record_states(decoder.facts, decoder.costs);
  decoder.costs.rerun_ratio = 3;
  const Planner without(decoder.facts, decoder.costs), with(decoder.facts, decoder.costs, {.states = true});
  const int64_t most = with.predict({}).peak_bytes, least = without.least_memory({}, "").predicted.peak_bytes;
  const PlanMemoryBudgets limits{most - (most - least) * 5 / 6, 0};
  const auto resident = without.plan(limits, "planned"), planned = with.plan(limits, "planned");
  REQUIRE(resident);
  REQUIRE(planned);
  CHECK(resident->predicted.step_ms < 1.35 * with.predict({}).step_ms);  // not slow of itself
  CHECK(planned->plan.offloads_states());
  CHECK(planned->predicted.step_ms < resident->predicted.step_ms);
}

TEST_CASE("segments that the environment lets grow need no more of them") {
  Decoder decoder(4, 50);
  decoder.costs.grain_bytes = 512;
  const Planner fixed(decoder.facts, decoder.costs);
  const int64_t most = fixed.predict({}).required_bytes, least = fixed.least_memory({}, "").predicted.required_bytes;
  const plan::RecordedStepCosts default_costs = decoder.costs;
  decoder.costs.expandable_segments = true;
  const Planner growing(decoder.facts, decoder.costs);
  const planner::StepPredictor predictor(decoder.facts, decoder.costs), predictor_before(decoder.facts, default_costs);
  int needed = 0;
  for (int i = 0; i <= 8; ++i) {
    const PlanMemoryBudgets limits{least + (most - least) * i / 8};
    const auto planned = growing.plan(limits, "planned");
    if (!planned) continue;
    CAPTURE(i);
    CHECK(planned->predicted.short_bytes == 0);
    const StepPrediction step = predictor.predict(planned->plan, {}, nullptr, {limits.budget_bytes});
    CHECK(step.short_bytes == 0);
    CHECK(step.required_bytes ==
          predictor.predict(planned->plan, {}, nullptr, {limits.budget_bytes, true}).required_bytes);
    if (predictor_before.predict(planned->plan, {}, nullptr, {limits.budget_bytes}).short_bytes > 0) ++needed;
  }
  CHECK(needed > 0);  // of the plans lack memory if segments have fixed sizes
}

// Kept activations of 13 MiB leave parts of pages free, which the logits of 1 GiB cannot take.
TEST_CASE("a plan that needs expandable segments fits once the allocator has released free pages") {
  ProgramFacts facts = decoder(24);
  int64_t least_output = std::numeric_limits<int64_t>::max();
  for (const ProgramOpFacts& op : facts.ops)
    for (const int64_t bytes : op.output_bytes)
      if (bytes > 0) least_output = std::min(least_output, bytes);
  for (ProgramOpFacts& op : facts.ops)
    for (int64_t& bytes : op.output_bytes) bytes = bytes * 13 * kMiB / least_output;
  plan::RecordedStepCosts costs = step_of(facts, decoder_ms(facts));
  costs.grain_bytes = 512;
  costs.runs.back().own_bytes += 1024 * kMiB;
  const Planner planner(facts, costs);
  const planner::StepPredictor predictor(facts, costs);
  const int64_t least = planner.least_memory({}, "").predicted.required_bytes;
  int with_retries = 0;
  for (int percent = 101; percent <= 105; ++percent) {
    const int64_t budget = least * percent / 100;
    const auto plan = planner.plan({budget}, "planned", /*safe=*/true);
    if (!plan || plan->safe || plan->predicted.short_bytes == 0) continue;
    ++with_retries;
    CAPTURE(percent);
    CHECK(predictor.predict(plan->plan, {}, nullptr, {budget, true}).lasting_short_bytes == 0);
  }
  CHECK(with_retries > 1);
}

TEST_CASE("the lower bound of the smallest plan includes the cost of its memory") {
  const Decoder decoder(3, 20);
  const Planner planner(decoder.facts, decoder.costs);
  const auto least = planner.least_memory({}, "least");
  CHECK(least.least_ms > planner.predict({}).step_ms);
  CHECK(least.least_ms <= least.predicted.step_ms);
}

TEST_CASE("lower PCIe bandwidth offloads less") {
  const Decoder decoder(4, 50);
  Planner planner(decoder.facts, decoder.costs);
  const int64_t budget = (planner.predict({}).peak_bytes + planner.least_memory({}, "least").predicted.peak_bytes) / 2;
  const auto fast = planner.plan({budget, 0}, "planned");
  planner.scale_link(0.05);
  const auto slow = planner.plan({budget, 0}, "planned");
  REQUIRE(fast);
  REQUIRE(slow);
  CHECK(fast->predicted.out_bytes > slow->predicted.out_bytes);
  CHECK(fast->predicted.step_ms <= slow->predicted.step_ms);
  planner.scale_link(1);
  CHECK(planner.predict(fast->plan).step_ms == fast->predicted.step_ms);
}

TEST_CASE("a plan of a larger budget is never slower and each plan fits its own budget") {
  for (const double gb_per_s : {0.0, 6.0, 25.0}) {
    const Decoder decoder(8, gb_per_s);
    const Planner planner(decoder.facts, decoder.costs);
    const int64_t most = planner.predict({}).peak_bytes, least = planner.least_memory({}, "").predicted.peak_bytes;
    const auto limits = budget_ladder(most, least, {});
    size_t begun = 0;
    const auto plans = planner.plan_budgets(
        limits, [](const PlanMemoryBudgets& rung) { return std::to_string(rung.budget_bytes); },
        [&](size_t i) { CHECK(i == begun++); });
    CHECK(begun == limits.size());
    REQUIRE(plans.size() == limits.size());
    for (size_t i = 0; i < plans.size(); ++i) {
      REQUIRE(plans[i]);
      CHECK(plans[i]->predicted.peak_bytes <= limits[i].budget_bytes);
      CHECK(plans[i]->plan.strategy == std::to_string(limits[i].budget_bytes));
      if (i > 0) CHECK(plans[i - 1]->predicted.step_ms <= plans[i]->predicted.step_ms);
      if (i > 0) CHECK(plans[i - 1]->least_ms <= plans[i]->least_ms);
    }
  }
}

TEST_CASE("no plan depends on the number of cores") {
  Decoder decoder(6, 25);
  decoder.costs.grain_bytes = 512;
  const Planner one(decoder.facts, decoder.costs, {}, 1), many(decoder.facts, decoder.costs, {}, 7);
  const int64_t most = one.predict({}).required_bytes;
  const int64_t least = one.least_memory({}, "").predicted.required_bytes;
  CHECK(many.least_memory({}, "").predicted.required_bytes == least);
  const std::vector<PlanMemoryBudgets> limits = budget_ladder(most, least, {});
  const auto unnamed = [](const PlanMemoryBudgets&) { return ""; };
  const auto plans = one.plan_budgets(limits, unnamed), same = many.plan_budgets(limits, unnamed);
  for (size_t i = 0; i < limits.size(); ++i) {
    CAPTURE(i);
    REQUIRE(plans[i].has_value() == same[i].has_value());
    if (!plans[i]) continue;
    CHECK(plans[i]->choice == same[i]->choice);
    CHECK(plans[i]->safe == same[i]->safe);
    CHECK(plans[i]->predicted.step_ms == same[i]->predicted.step_ms);
    CHECK(plans[i]->predicted.required_bytes == same[i]->predicted.required_bytes);
  }
  CHECK(one.scored() == many.scored());  // what is predicted ahead and not used is no score
}

TEST_CASE("a plan of many blocks takes few predictions") {
  const Decoder decoder(36, 25);
  const Planner planner(decoder.facts, decoder.costs);
  const int64_t most = planner.predict({}).required_bytes;
  const int64_t least = planner.least_memory({}, "").predicted.required_bytes;
  for (const int share : {1, 2, 3}) {
    const size_t before = planner.scored();
    const auto step = planner.plan({most - (most - least) * share / 4, 0}, "");
    CAPTURE(share);
    REQUIRE(step);
    CHECK(step->predicted.step_ms <= 1.05 * step->least_ms);
    CHECK(planner.scored() - before <= 500);
  }
}

TEST_CASE("where states may be offloaded, placements that are slow with all blocks alike are not searched") {
  Decoder decoder(36, 25);
  record_states(decoder.facts, decoder.costs);
  const Planner planner(decoder.facts, decoder.costs, {.states = true});
  const int64_t resident = Planner(decoder.facts, decoder.costs).least_memory({}, "").predicted.required_bytes;
  const int64_t least = planner.least_memory({}, "").predicted.required_bytes;
  for (const int share : {1, 2, 3}) {
    const size_t before = planner.scored();
    const auto step = planner.plan({resident - (resident - least) * share / 4, 0}, "");
    CAPTURE(share);
    REQUIRE(step);
    CHECK(step->predicted.step_ms <= 1.15 * step->least_ms);
    CHECK(planner.scored() - before <= 500);
  }
}

}  // namespace memtune::planner_test
