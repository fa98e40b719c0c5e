// The order in which variants of a command are tried, and which are skipped.
#include "core/sweep/commands/command_variant_orderer.h"

#include <doctest/doctest.h>

namespace memtune::command_variant_order_test {

using namespace memtune;
using namespace memtune::sweep;
using memtune::result::RecommendationGoal;
using memtune::result::TrialOutcome;

namespace {

using Names = std::vector<std::string>;

CommandVariant variant(const std::string& name, Names parts = {}, const std::string& like = "") {
  CommandVariant variant;
  variant.name = name;
  variant.own = "own";
  variant.parts = std::move(parts);
  variant.like = like;
  return variant;
}

SweepTrialAndMeasurement tried(const std::string& name, double step_ms, int64_t peak,
                               TrialOutcome outcome = TrialOutcome::ok) {
  SweepTrialAndMeasurement trial;
  trial.spec.strategy = trial.measurement.strategy = name;
  trial.measurement.outcome = outcome;
  trial.measurement.reason = outcome == TrialOutcome::ok ? "" : "no such package";
  trial.measurement.step_ms.median = step_ms;
  trial.measurement.peak_bytes.allocated = peak;
  return trial;
}

Names names(const std::vector<VariantWithOrderReason>& placed) {
  Names names;
  for (const VariantWithOrderReason& each : placed) names.push_back(each.variant->name);
  return names;
}

const std::vector<CommandVariant> kVariants = {variant("own"),
                                               variant("full"),
                                               variant("every-2"),
                                               variant("liger"),
                                               variant("compile"),
                                               variant("full+liger", {"full", "liger"}),
                                               variant("every-2+liger", {"every-2", "liger"}),
                                               variant("full+compile", {"full", "compile"}),
                                               variant("liger+compile", {"liger", "compile"})};

// Compared with own: full is slower and smaller, liger as fast and smaller, compile faster and as large.
std::vector<SweepTrialAndMeasurement> measured() {
  return {tried("own", 100, 1000), tried("full", 130, 500), tried("every-2", 115, 750), tried("liger", 100, 800),
          tried("compile", 80, 1000)};
}

}  // namespace

TEST_CASE("combinations wait for their parts and the one expected to be fastest is first") {
  const CommandVariantOrderer order(kVariants, {}, 0, RecommendationGoal::throughput);
  CHECK(names(order.first()) == Names{"own", "full", "every-2", "liger", "compile"});
  const VariantCombinationsToRunAndSkip placed = order.combined(measured());
  CHECK(names(placed.run) == Names{"liger+compile", "full+compile", "every-2+liger", "full+liger"});
  CHECK(placed.run.front().why == "80 ms, 800 B expected");
  CHECK(placed.skipped.empty());
}

TEST_CASE("the smallest combination is first if the goal is memory") {
  const CommandVariantOrderer order(kVariants, {}, 0, RecommendationGoal::memory);
  CHECK(names(order.combined(measured()).run) == Names{"full+liger", "full+compile", "every-2+liger", "liger+compile"});
}

TEST_CASE("combinations expected to exceed the budget come last with the nearest first") {
  const CommandVariantOrderer order(kVariants, {}, 450, RecommendationGoal::throughput);
  CHECK(names(order.combined(measured()).run) == Names{"full+liger", "full+compile", "every-2+liger", "liger+compile"});
}

TEST_CASE("combinations expected to be slower and larger than a measured variant come last") {
  std::vector<SweepTrialAndMeasurement> trials = measured();
  trials[4] = tried("compile", 120, 1200);  // itself slower and larger than own
  const CommandVariantOrderer order(kVariants, {}, 0, RecommendationGoal::throughput);
  const std::vector<VariantWithOrderReason> run = order.combined(trials).run;
  CHECK(names(run) == Names{"every-2+liger", "full+liger", "liger+compile", "full+compile"});
  CHECK(run[2].why == "120 ms, 960 B expected: beaten in time and memory");  // liger is faster and smaller
}

TEST_CASE("a combination is skipped if a part failed but not if a part ran out of memory") {
  std::vector<SweepTrialAndMeasurement> trials = measured();
  trials[3] = tried("liger", 0, 0, TrialOutcome::error);
  trials[4] = tried("compile", 0, 0, TrialOutcome::device_oom);
  const VariantCombinationsToRunAndSkip placed =
      CommandVariantOrderer(kVariants, {}, 0, RecommendationGoal::throughput).combined(trials);
  CHECK(names(placed.run) == Names{"full+compile"});
  REQUIRE(placed.skipped.size() == 3);
  CHECK(placed.skipped[0].name == "full+liger");
  CHECK(placed.skipped[0].reason == "liger alone ended in error: no such package");
}

TEST_CASE("a part that failed after its first round skips no combination") {
  std::vector<SweepTrialAndMeasurement> trials = measured();
  trials[3].measurement.rounds.resize(1);
  trials[3].measurement.outcome = TrialOutcome::error;
  const VariantCombinationsToRunAndSkip placed =
      CommandVariantOrderer(kVariants, {}, 0, RecommendationGoal::throughput).combined(trials);
  CHECK(placed.run.size() == 4);
  CHECK(placed.skipped.empty());
}

TEST_CASE("a native sweep of the model orders single changes and those beaten there come last") {
  const std::vector<CommandVariant> variants = {variant("own", {}, "checkpoint:full"),
                                                variant("slow", {}, "offload:stream"),
                                                variant("broken", {}, "offload:sync"),
                                                variant("off", {}, "none"),
                                                variant("liger"),
                                                variant("every-2", {}, "checkpoint:every=2"),
                                                variant("unheard", {}, "checkpoint:cheap")};
  const std::vector<EngineStrategyStepTimeAndPeak> native = {{"none", 100, 2000},
                                                             {"checkpoint:full", 130, 500},
                                                             {"checkpoint:every=2", 115, 1250},
                                                             {"offload:stream", 300, 600},
                                                             {"offload:sync", 0, 0}};
  const CommandVariantOrderer order(variants, native, 0, RecommendationGoal::throughput);
  const std::vector<VariantWithOrderReason> placed = order.first();
  CHECK(names(placed) == Names{"own", "off", "every-2", "liger", "unheard", "broken", "slow"});
  CHECK(placed.back().why == "like offload:stream, 300 ms, 600 B there: beaten in time and memory");
  const CommandVariantOrderer within(variants, native, 1500, RecommendationGoal::throughput);
  CHECK(names(within.first()) == Names{"own", "every-2", "liger", "unheard", "broken", "off", "slow"});
}

TEST_CASE("a combination with a part that cannot run alone is ordered by the native sweep") {
  const std::vector<CommandVariant> variants = {variant("own", {}, "none"), variant("full", {}, "checkpoint:full"),
                                                variant("full+liger", {"full"}),
                                                variant("full+host", {"full", "host"}, "checkpoint:full,inputs=host")};
  const std::vector<EngineStrategyStepTimeAndPeak> native = {{"none", 200, 2000},
                                                             {"checkpoint:full,inputs=host", 220, 100}};
  const CommandVariantOrderer order(variants, native, 0, RecommendationGoal::throughput);
  const std::vector<VariantWithOrderReason> run =
      order.combined(std::vector<SweepTrialAndMeasurement>{tried("own", 100, 1000), tried("full", 130, 500)}).run;
  CHECK(names(run) == Names{"full+host", "full+liger"});
  CHECK(run.front().why == "110 ms, 50 B expected");
}

}  // namespace memtune::command_variant_order_test
