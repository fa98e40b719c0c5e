// Errors of predictions, with figures that can be checked by hand.
#include "core/record/measurement/trial_prediction.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/result/rows.h"

namespace memtune::trial_prediction_test {

using namespace memtune;
using namespace memtune::result;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TrialResultRow predicted(TrialResultRow row, double ms, int64_t peak_bytes) {
  row.predicted = TrialPrediction{ms, peak_bytes};
  return row;
}

}  // namespace

TEST_CASE("an error is positive if the prediction was too high") {
  const TrialResultRow high = predicted(row("plan:16GiB", 100, 10), 110, 11 * kGiB);
  CHECK(*step_error(high) == doctest::Approx(0.1));
  CHECK(*peak_error(high) == doctest::Approx(0.1));
  const TrialResultRow low = predicted(row("plan:16GiB", 100, 10), 98, 9 * kGiB);
  CHECK(*step_error(low) == doctest::Approx(-0.02));
  CHECK(*peak_error(low) == doctest::Approx(-0.1));
}

TEST_CASE("a trial without prediction or a failed trial has no error") {
  CHECK_FALSE(step_error(row("none", 100)));
  CHECK_FALSE(peak_error(row("none", 100)));
  TrialResultRow failed = predicted(row("plan:16GiB", 100, 10), 110, 11 * kGiB);
  failed.measurement.outcome = TrialOutcome::device_oom;
  CHECK_FALSE(step_error(failed));
  CHECK_FALSE(peak_error(failed));
  failed = predicted(row("plan:16GiB", 0, 0), 110, 11 * kGiB);
  CHECK_FALSE(step_error(failed));
  CHECK_FALSE(peak_error(failed));
}

TEST_CASE("errors over trials ignore the sign and have median and maximum") {
  TrialResultRow failed = predicted(row("plan:4GiB", 100, 10), 500, 11 * kGiB);
  failed.measurement.outcome = TrialOutcome::device_oom;
  const std::vector<TrialResultRow> rows = {row("none", 100, 10), predicted(row("plan:8GiB", 100, 10), 101, 9 * kGiB),
                                            predicted(row("plan:6GiB", 100, 10), 96, 10 * kGiB),
                                            predicted(row("plan:5GiB", 100, 10), 98, 12 * kGiB), failed};
  const PredictionErrorSummary errors = prediction_errors(rows);
  CHECK(errors.trials == 3);
  CHECK(errors.step_median == doctest::Approx(0.02));
  CHECK(errors.step_most == doctest::Approx(0.04));
  CHECK(errors.peak_median == doctest::Approx(0.1));
  CHECK(errors.peak_most == doctest::Approx(0.2));
  CHECK(prediction_errors(std::vector{row("none", 100)}).trials == 0);
}

TEST_CASE("a prediction is read back unchanged and negative or missing figures are refused") {
  const TrialPrediction told = {268.125, 17 * kGiB + 1};
  CHECK(nlohmann::json(told).get<TrialPrediction>() == told);
  for (const char* text : {R"({"step_ms": -1, "peak_bytes": 1})", R"({"step_ms": 1, "peak_bytes": -1})"})
    CHECK_THROWS(nlohmann::json::parse(text).get<TrialPrediction>());
  CHECK_THROWS(nlohmann::json::parse(R"({"step_ms": 1})").get<TrialPrediction>());
}

TEST_CASE("a row is planned if its name starts with plan:") {
  CHECK(is_planned(row("plan:16GiB", 100)));
  CHECK_FALSE(is_planned(row("plan", 100)));
  CHECK_FALSE(is_planned(row("my-plan:16GiB", 100)));
}

TEST_CASE("a frontier is read back unchanged and unknown lower bounds are left out") {
  const PredictedFrontier frontier{4, {}, {{100, 8, 99.5}, {120, 4, 118}}};
  CHECK(nlohmann::json(frontier).get<PredictedFrontier>() == frontier);
  CHECK(nlohmann::json(frontier)["plans"][0]["least_ms"] == 99.5);
  CHECK_FALSE(nlohmann::json(frontier).contains("sequence"));
  CHECK_FALSE(nlohmann::json(TrialPrediction{100, 8}).contains("least_ms"));
  CHECK_THROWS_WITH_AS(
      nlohmann::json::parse(R"({"step_ms": 1, "peak_bytes": 2, "least_ms": -1})").get<TrialPrediction>(),
      "least_ms: -1 is no number from 0.0 to 1e+15", nlohmann::json::exception);
}

}  // namespace memtune::trial_prediction_test
