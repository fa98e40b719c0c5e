// Ratios of rounds, with intervals computed by hand.
#include "core/answer/result/rounds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/answer/result/recommend.h"
#include "tests/result/rows.h"

namespace memtune::result_rounds_test {

using namespace memtune::result;

namespace {

// One pair per round: the trial's step and the baseline's step.
TrialResultRow measured(const std::string& strategy, const std::vector<std::pair<double, double>>& rounds,
                        int64_t peak_gib = 1) {
  TrialResultRow made = row(strategy, rounds.front().first, peak_gib);
  TrialMeasurement round = made.measurement;
  for (size_t i = 0; i < rounds.size(); ++i) {
    round.step_ms = summarize({rounds[i].first});
    TrialRoundTimesAndMachineLoad beside;
    beside.base = "none";
    beside.base_ms = rounds[i].second;
    add_round(i, round, beside, made.measurement);
  }
  return made;
}

}  // namespace

TEST_CASE("the ratio of rounds is their geometric mean with Student's interval of the logarithms") {
  const TrialResultRow none = measured("none", {{100, 100}, {200, 200}, {400, 400}});
  const TrialResultRow slower = measured("a", {{110, 100}, {240, 200}, {440, 400}});  // 1.1, 1.2, 1.1
  const StepTimeRatioEstimate ratio = ratio_of(slower.measurement, none.measurement);
  CHECK(ratio.value == doctest::Approx(1.1324).epsilon(1e-4));
  CHECK(ratio.low == doctest::Approx(0.9997).epsilon(1e-3));  // deviation 0.05024, half interval 4.303 / sqrt(3) of it
  CHECK(ratio.high == doctest::Approx(1.2828).epsilon(1e-3));
  const StepTimeRatioEstimate own = ratio_of(none.measurement, none.measurement);
  CHECK(own.low == doctest::Approx(1));
  CHECK(own.high == doctest::Approx(1));
}

TEST_CASE("a slowdown of the machine that affects all trials alike changes no ratio") {
  const std::vector<TrialResultRow> rows = {measured("none", {{100, 100}, {300, 300}, {900, 900}}, 9),
                                            measured("faster", {{90, 100}, {270, 300}, {810, 900}}, 9)};
  CHECK(recommend(rows, 0, RecommendationGoal::throughput).strategy == "faster");
}

TEST_CASE("the smallest peak wins if nothing is measurably faster and the reason has the interval") {
  const std::vector<TrialResultRow> rows = {measured("none", {{100, 100}, {100, 100}, {100, 100}}, 9),
                                            measured("maybe", {{90, 100}, {101, 100}, {94, 100}}, 12)};
  const Recommendation advice = recommend(rows, 0, RecommendationGoal::throughput);
  CHECK(advice.strategy == "none");
  CHECK(
      advice.reason.starts_with("as fast as maybe within the noise (0.75 to 1.47 × its time), and takes less memory; "
                                "one of 2 that worked: 100 ms"));
  const std::vector<TrialResultRow> far = {rows[0], measured("far", {{80, 100}, {101, 100}, {90, 100}}, 12)};
  CHECK(recommend(far, 0, RecommendationGoal::throughput).strategy == "far");  // what is 11 % slower is not recommended
  const std::vector<TrialResultRow> slower = {rows[0], measured("slower", {{120, 100}, {99, 100}, {110, 100}}, 5)};
  CHECK(recommend(slower, 0, RecommendationGoal::throughput).strategy == "slower");
}

TEST_CASE("an interval too wide to be useful is replaced by the number of rounds") {
  const std::vector<TrialResultRow> rows = {measured("none", {{100, 100}, {100, 100}}, 9),
                                            measured("maybe", {{90, 100}, {103, 100}}, 12)};
  CHECK(recommend(rows, 0, RecommendationGoal::throughput)
            .reason.starts_with("as fast as maybe within the noise of 2 rounds, and takes less memory; one of 2"));
}

TEST_CASE("a trial must be faster with 99 % confidence to be chosen among several") {
  const TrialResultRow none = measured("none", {{100, 100}, {100, 100}, {100, 100}}, 9);
  const TrialResultRow luck = measured("luck", {{94, 100}, {90, 100}, {92, 100}}, 12);
  const TrialResultRow faster = measured("faster", {{92, 100}, {92, 100}, {92.5, 100}}, 12);
  CHECK(ratio_of(luck.measurement, none.measurement).high < 1);
  CHECK(ratio_of(luck.measurement, none.measurement, ConfidenceIntervalLevel::percent99).high ==
        doctest::Approx(1.0421).epsilon(1e-3));
  CHECK(recommend(std::vector<TrialResultRow>{none, luck}, 0, RecommendationGoal::throughput).strategy == "none");
  CHECK(recommend(std::vector<TrialResultRow>{none, faster}, 0, RecommendationGoal::throughput).strategy == "faster");
}

TEST_CASE("among equally fast trials that fit with nearly equal peaks the one that changes less wins") {
  std::vector<TrialResultRow> rows = {measured("none", {{100, 100}, {100, 100}, {100, 100}}, 9),
                                      measured("more", {{110, 100}, {112, 100}, {111, 100}}, 6),
                                      measured("less", {{111, 100}, {112, 100}, {112, 100}}, 6)};
  rows[1].measurement.recomputed_bytes = 2000;
  rows[2].measurement.recomputed_bytes = 1000;
  const int64_t budget = 8 * (int64_t{1} << 30);
  CHECK(recommend(rows, budget, RecommendationGoal::throughput).strategy == "less");
  rows[2] = measured("less", {{131, 100}, {133, 100}, {132, 100}}, 6);
  rows[2].measurement.recomputed_bytes = 1000;
  CHECK(recommend(rows, budget, RecommendationGoal::throughput).strategy == "more");  // less is measurably slower now
}

TEST_CASE("two trials are compared with each other in each round and not by way of the baseline") {
  // Against the baseline both vary by 40 %, and alike.
  const std::vector<TrialResultRow> rows = {measured("none", {{100, 100}, {100, 100}, {100, 100}}, 9),
                                            measured("fast", {{110, 100}, {130, 100}, {150, 100}}, 6),
                                            measured("slow", {{115, 100}, {136, 100}, {157, 100}}, 5)};
  const StepTimeRatioEstimate ratio =
      ratio_of(rows[2].measurement, rows[1].measurement, ConfidenceIntervalLevel::percent99);
  CHECK(ratio.value == doctest::Approx(1.0461).epsilon(1e-3));
  CHECK(ratio.low > 1.03);
  CHECK(ratio.high < 1.06);
  CHECK(have_rounds_in_common(rows[2].measurement, rows[1].measurement));
  CHECK_FALSE(WorkNormalizedTrialComparator(rows).equally_fast(rows[1], rows[2]));
  CHECK(recommend(rows, 8 * (int64_t{1} << 30), RecommendationGoal::throughput).strategy == "fast");
  TrialResultRow once = measured("once", {{115, 100}});
  CHECK_FALSE(have_rounds_in_common(once.measurement, rows[1].measurement));
  CHECK(ratio_of(once.measurement, rows[1].measurement).value ==
        once.measurement.step_ms.median / rows[1].measurement.step_ms.median);
}

TEST_CASE("rounds against another baseline and single rounds use the step times") {
  TrialResultRow none = measured("none", {{100, 100}, {100, 100}});
  TrialResultRow once = measured("a", {{120, 100}});
  once.measurement.step_ms = {120, 118, 125, {}};
  CHECK(ratio_of(once.measurement, none.measurement).low == doctest::Approx(1.18));
  CHECK(ratio_of(once.measurement, none.measurement).high == doctest::Approx(1.25));
  TrialResultRow other = measured("b", {{120, 1000}, {120, 1000}});
  for (TrialRoundTimesAndMachineLoad& round : other.measurement.rounds) round.base = "first";
  CHECK(ratio_of(other.measurement, none.measurement).value == doctest::Approx(1.2));
}

TEST_CASE("a repeated round replaces itself and the samples of all rounds give the step and the rates") {
  TrialResultRow made = row("a", 100);
  made.measurement.samples_per_s = 10;
  TrialMeasurement round = made.measurement;
  round.step_ms = summarize({100});
  add_round(0, round, {}, made.measurement);
  round.step_ms = summarize({300});
  add_round(1, round, {}, made.measurement);
  round.step_ms = summarize({200});
  round.peak_bytes.allocated = int64_t{2} << 30;
  add_round(1, round, {}, made.measurement);
  CHECK(made.measurement.rounds.size() == 2);
  CHECK(made.measurement.step_ms.samples == std::vector<double>{100, 200});
  CHECK(made.measurement.samples_per_s == doctest::Approx(1000.0 / 150));
  CHECK(made.measurement.peak_bytes.allocated == int64_t{2} << 30);
}

TEST_CASE("the peak of each rank is its highest of all rounds") {
  TrialResultRow made = measured("a", {{100, 100}});
  TrialMeasurement round;
  round.step_ms = summarize({100});
  round.ranks = {{0, {}, {5, 5, 5}, 0, {}}, {1, {}, {7, 7, 7}, 0, {}}};
  made.measurement.ranks = round.ranks;
  round.ranks[1].peak_bytes = {9, 6, 7};
  add_round(1, round, {}, made.measurement);
  CHECK(made.measurement.ranks[0].peak_bytes.allocated == 5);
  CHECK(made.measurement.ranks[1].peak_bytes.allocated == 9);
  CHECK(made.measurement.ranks[1].peak_bytes.reserved == 7);
}

TEST_CASE("a measurement keeps its rounds in JSON") {
  const TrialResultRow made = measured("a", {{110, 100}, {120, 100}});
  const nlohmann::json json = made.measurement;
  const auto read = json.get<TrialMeasurement>();
  REQUIRE(read.rounds.size() == 2);
  CHECK(read.rounds[1].base == "none");
  CHECK(read.rounds[1].base_ms == 100);
  CHECK(read.rounds[1].step_ms.median == 120);
  CHECK_FALSE(read.recomputed_bytes);
}

TEST_CASE("more rounds than the table covers never give an interval narrower than Student's") {
  std::vector<std::pair<double, double>> rounds;
  for (int i = 0; i < 17; ++i) rounds.emplace_back(100 * std::exp(i % 2 == 0 ? 0.1 : -0.1), 100);
  const TrialResultRow none = measured("none", {{100, 100}, {100, 100}}), other = measured("a", rounds);
  const double half = std::log(ratio_of(other.measurement, none.measurement).high) - 0.1 / 17;
  // 9 logarithms of 0.1 and 8 of -0.1: deviation 0.10290, of the mean 0.024957. Student's factor is 2.120 for 16
  // degrees of freedom.
  CHECK(half >= 2.1199 * 0.024957);
  CHECK(half <= 2.1400 * 0.024957);
}

}  // namespace memtune::result_rounds_test
