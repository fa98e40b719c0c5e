// These figures decide the mode. The first save allocates, so it must not stand for the others.
#include "core/record/measurement/state_save_mode_measurement.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace memtune::save_measurement_test {

using namespace memtune;
using namespace memtune::result;

namespace {

StateSaveModeMeasurement of(const std::vector<StateSaveWithConcurrentStepTimes>& saves,
                            const std::vector<double>& alone) {
  StateSaveModeMeasurement measurement;
  summarize(saves, alone, measurement);
  return measurement;
}

}  // namespace

TEST_CASE("the first save is reported alone and the others by median and maximum") {
  const StateSaveModeMeasurement m =
      of({{500, 900, 901, 64}, {10, 100, 110, 64}, {30, 140, 150, 64}, {20, 120, 130, 64}}, {50, 50, 50});
  CHECK(m.saves == 4);
  CHECK(m.bytes == 64);
  CHECK(m.first_blocked_ms == 500);
  CHECK(m.first_durable_ms == 900);
  CHECK(m.blocked_ms == 20);
  CHECK(m.most_blocked_ms == 30);
  CHECK(m.durable_ms == 120);
  CHECK(m.total_ms == 130);
}

TEST_CASE("a single save is reported as it is") {
  const StateSaveModeMeasurement m = of({{500, 900, 901, 64, {90, 90, 90, 90}}}, {50, 50, 50});
  CHECK(m.blocked_ms == 500);
  CHECK(m.most_blocked_ms == 500);
  CHECK_FALSE(m.slowdown);  // this save allocates
}

TEST_CASE("the slowdown counts steps fully within a save other than the first") {
  const StateSaveModeMeasurement m =
      of({{0, 0, 0, 1, {900, 900, 900}}, {0, 0, 0, 1, {55, 60, 50}}, {0, 0, 0, 1, {65, 51}}}, {50, 49, 51});
  CHECK(m.steps_with_save == 3);
  REQUIRE(m.slowdown);
  CHECK(*m.slowdown == doctest::Approx(1.2));
  CHECK(m.no_slowdown == "");
  CHECK(m.slowed_ms == doctest::Approx((15 + 16) / 2.0));  // 165 for 3 steps, 116 for 2
}

TEST_CASE("without enough steps of both kinds there is no slowdown and a reason") {
  const StateSaveWithConcurrentStepTimes over{1, 1, 1, 1}, within{1, 1, 1, 1, {60}}, one_more{1, 1, 1, 1, {70, 60}};
  CHECK(of({over, over, over}, {50, 50, 50}).no_slowdown == "a save ended before a step did");
  CHECK(of({over, within, within}, {50, 50, 50}).no_slowdown == "a save ended before a step did");
  CHECK(of({over, within, within}, {50, 50, 50}).slowed_ms == 10);
  CHECK(of({over, one_more, one_more}, {50, 50, 50}).no_slowdown == "only 2 steps during a save");
  CHECK(of({over, one_more}, {50}).no_slowdown == "only 1 step without a save");
  CHECK_FALSE(of({over, one_more}, {50}).slowdown);
}

TEST_CASE("a save measurement is read back unchanged with a missing slowdown as null") {
  StateSaveModeMeasurement m = of({{1, 2, 3, 4}, {5, 6, 7, 8, {60, 61, 62, 63}}}, {50, 50, 50});
  m.mode = "async";
  m.load_ms = 9;
  m.host_bytes = 10;
  for (const bool known : {true, false}) {
    if (!known) m.slowdown.reset(), m.outcome = TrialOutcome::disk_full, m.reason = "no space";
    const nlohmann::json json = m;
    CHECK(json.at("slowdown").is_null() == !known);
    CHECK(nlohmann::json(json.get<StateSaveModeMeasurement>()) == json);
    nlohmann::json made_up = json;
    made_up["durable_ms"] = -1;
    CHECK_THROWS_WITH_AS(made_up.get<StateSaveModeMeasurement>(), "durable_ms: -1 is no number from 0.0 to 1e+15",
                         nlohmann::json::exception);
  }
}

}  // namespace memtune::save_measurement_test
