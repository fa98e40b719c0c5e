// The gain over the user's own command, in every report format.
#include "core/answer/report/gain_over_user_config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/answer/report/html/html.h"
#include "core/answer/report/text/json.h"
#include "core/answer/report/text/markdown.h"
#include "core/answer/report/text/table.h"
#include "tests/result/rows.h"

namespace memtune::variant_gain_test {

using namespace memtune;
using namespace memtune::report;

namespace {

// own: 100 ms at 10 GiB; checkpoint-off: 88 ms at 13 GiB.
Report sample() {
  Report report;
  report.reference = "own";
  report.rows = {result::row("own", 100, 10), result::row("checkpoint-off", 88, 13)};
  for (result::TrialResultRow& row : report.rows) row.command = {"train"};
  report.rows[0].base = true;
  report.rows[0].config = "run/trials/1-own/config/a.yaml";
  report.rows[1].config = "run/trials/2-checkpoint-off/config/a.yaml";
  report.rows[1].recommended = true;
  report.recommendation = {"checkpoint-off", "the fastest", true, {}, {}};
  return report;
}

}  // namespace

TEST_CASE("every report format has the gain over the own command and the config to use") {
  const std::string gained =
      "checkpoint-off takes 12 % less time a step than own, with 3 GiB more at the peak; its config is "
      "run/trials/2-checkpoint-off/config/a.yaml";
  const Report report = sample();
  CHECK(gain_text(report) == gained);
  CHECK(table(report, {.width = 400}).find("Gained: " + gained.substr(0, 60)) != std::string::npos);
  CHECK(markdown(report).find("**Gained:** " + gained) != std::string::npos);
  CHECK(html(report, {}).find("<b>Gained:</b> " + gained) != std::string::npos);
  const auto json = nlohmann::json::parse(to_json_text(report));
  const auto& gain = json.at("recommendation").at("gain");
  CHECK(gain.at("over") == "own");
  CHECK(gain.at("time_ratio").get<double>() == doctest::Approx(0.88));
  CHECK(gain.at("peak_bytes") == int64_t{3} << 30);
  CHECK(json.at("trials")[1].at("config") == "run/trials/2-checkpoint-off/config/a.yaml");
}

TEST_CASE("a faster time within the noise is no gain but less memory is") {
  Report report = sample();
  report.rows[1].measurement.step_ms.high = 101;
  report.rows[1].measurement.peak_bytes.allocated = int64_t{4} << 30;
  CHECK(
      gain_text(report).starts_with("checkpoint-off is as fast as own within the noise, with 6 GiB less at the peak;"));
}

TEST_CASE("a time that is longer by 25 % is reported even if the noise is larger") {
  Report report = sample();
  report.rows[1].measurement.step_ms = {125, 90, 160, {}};
  CHECK(gain_text(report).starts_with(
      "checkpoint-off takes 25 % more time a step than own (the noise is larger), with "));
}

TEST_CASE("the gain text covers a failed own command and an own command that is best") {
  Report report = sample();
  report.rows[0].measurement.outcome = result::TrialOutcome::device_oom;
  CHECK(gain_text(report).starts_with("checkpoint-off works, and own ended in device_oom; its config is "));
  CHECK_FALSE(gain(report).has_value());
  report = sample();
  std::swap(report.rows[0].recommended, report.rows[1].recommended);
  CHECK(gain_text(report) == "nothing that was tried is a better choice than own");
  CHECK_FALSE(gain(report).has_value());
}

TEST_CASE("a sweep of a model is compared with what the user's config has now") {
  Report report = sample();
  for (result::TrialResultRow& row : report.rows) {
    row.command.clear();
    row.config.clear();
    row.base = false;
  }
  report.rows[0].measurement.strategy = "checkpoint:full";
  report.rows[1].measurement.strategy = "none";
  report.own_config = "mine.yml";
  report.own_strategy = "checkpoint:full";
  CHECK(gain_text(report) ==
        "none takes 12 % less time a step than checkpoint:full (mine.yml now), with 3 GiB more at the peak");
  const auto json = nlohmann::json::parse(to_json_text(report));
  CHECK(json.at("own") == nlohmann::json{{"config", "mine.yml"}, {"strategy", "checkpoint:full"}});
  CHECK(gain_text(from_json_text(json.dump(), "it")) == gain_text(report));
  std::swap(report.rows[0].recommended, report.rows[1].recommended);
  CHECK(gain_text(report) == "nothing that was tried is a better choice than checkpoint:full (mine.yml now)");
  std::swap(report.rows[0].recommended, report.rows[1].recommended);
  report.rows[1].measurement.step_ms.high = 101;
  CHECK(gain_text(report) ==
        "none is as fast as checkpoint:full (mine.yml now) within the noise, with 3 GiB more at the peak");
  report.rows[0].measurement.outcome = result::TrialOutcome::device_oom;
  CHECK(gain_text(report) == "none works, and checkpoint:full (mine.yml now) ended in device_oom");
  report.own_strategy = "checkpoint:op";  // not measured
  CHECK(gain_text(report) == "");
}

TEST_CASE("a sweep of a model or a command alone has no own command to compare with") {
  Report report = sample();
  for (result::TrialResultRow& row : report.rows) row.command.clear();
  CHECK(gain_text(report) == "");
  report = sample();
  report.rows.erase(report.rows.begin());
  CHECK(gain_text(report) == "");
}

}  // namespace memtune::variant_gain_test
