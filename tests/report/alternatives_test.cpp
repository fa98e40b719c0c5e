// The best trainer setting and the best Python plan, in every report format.
#include "core/answer/report/alternatives.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/answer/report/html/html.h"
#include "core/answer/report/text/json.h"
#include "core/answer/report/text/markdown.h"
#include "core/answer/report/text/table.h"
#include "tests/result/rows.h"

namespace memtune::alternatives_test {

using namespace memtune;
using namespace memtune::report;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// own: 100 ms at 20 GiB; full: 130 ms at 10 GiB; a plan: 110 ms at 12 GiB.
Report sample() {
  Report report;
  report.planned = true;
  report.trainer = "axolotl";
  report.reference = "own";
  report.budget_bytes = 13 * kGiB;
  report.rows = {result::row("own", 100, 20), result::row("full", 130, 10), result::row("plan:13 GiB", 110, 12)};
  for (result::TrialResultRow& row : report.rows) row.command = {"train"};
  report.rows[0].base = true;
  report.rows[2].python = "run/trials/3-plan-13-gib/memtune_plan.py";
  report.rows[2].recommended = true;
  report.recommendation = {"plan:13 GiB", "the fastest", true, {}, {}};
  return report;
}

void fail(result::TrialResultRow& row, const std::string& reason) {
  row.measurement.outcome = result::TrialOutcome::error;
  row.measurement.reason = reason;
}

}  // namespace

TEST_CASE("every report format has the best settings and the best plan") {
  const Report report = sample();
  const auto [keys, plan] = std::pair(alternatives(report).at(0), alternatives(report).at(1));
  CHECK(keys.head + ": " + keys.text == "In keys of axolotl: full, 130 ms at 10 GiB");
  CHECK(plan.head + ": " + plan.text == "With memtune_plan.py: plan:13 GiB, 110 ms at 12 GiB");
  CHECK((keys.fits && plan.fits && plan.by_plan && !keys.by_plan));
  CHECK(keys.row == &report.rows[1]);
  CHECK(table(report, {.width = 400}).find(" In keys of axolotl: full, 130 ms at 10 GiB\n") != std::string::npos);
  CHECK(markdown(report).find("**With memtune_plan.py:** plan:13 GiB, 110 ms at 12 GiB") != std::string::npos);
  CHECK(html(report, {}).find("<b>With memtune_plan.py:</b> plan:13 GiB, 110 ms at 12 GiB") != std::string::npos);
  const auto json = nlohmann::json::parse(to_json_text(report));
  CHECK(json.at("ways").at(0) == nlohmann::json{{"by", "keys"},
                                                {"fits", true},
                                                {"text", keys.text},
                                                {"strategy", "full"},
                                                {"step_ms", 130.0},
                                                {"peak_bytes", 10 * kGiB},
                                                {"required_bytes", 10 * kGiB}});
  CHECK(json.at("ways").at(1).at("by") == "python");
  CHECK(json.at("trials").at(2).at("python") == "run/trials/3-plan-13-gib/memtune_plan.py");
  const Report read = from_json_text(to_json_text(report), "it");
  CHECK((read.planned && read.trainer == "axolotl" && read.rows[2].python == report.rows[2].python));
  CHECK(markdown(report).find("at the peak; its plan is run/trials/3-plan-13-gib/memtune_plan.py") !=
        std::string::npos);
}

TEST_CASE("an alternative that does not fit or failed says so and the other one stays") {
  Report report = sample();
  report.budget_bytes = 9 * kGiB;
  CHECK(alternatives(report)[0].text == "no measured trial fits 9 GiB; the smallest is full, 130 ms at 10 GiB");
  CHECK_FALSE(alternatives(report)[0].fits);
  report.budget_bytes = 11 * kGiB;
  CHECK(alternatives(report)[0].fits);
  CHECK_FALSE(alternatives(report)[1].fits);
  report = sample();
  fail(report.rows[2], "the plan cannot be applied: the model is compiled already");
  CHECK(alternatives(report)[1].text ==
        "plan:13 GiB ended in error: the plan cannot be applied: the model is compiled already");
  CHECK(alternatives(report)[1].row == nullptr);
  CHECK(alternatives(report)[0].fits);
  report.rows[2].measurement.outcome = result::TrialOutcome::ok;
  report.rows[2].measurement.losses = {true, true, 2, 1, 2, 0, "own"};
  CHECK(alternatives(report)[1].text == "plan:13 GiB trains differently from own");
  report.rows.pop_back();
  report.no_plan = "none is needed";
  CHECK(alternatives(report)[1].text == "none is needed");
  report.no_plan = "";
  CHECK(alternatives(report)[1].text == "nothing was measured");
}

TEST_CASE("alternatives without a budget or a trainer or a plan") {
  Report report = sample();
  report.budget_bytes = 0;
  report.trainer = "";
  CHECK(alternatives(report)[0].head + ": " + alternatives(report)[0].text == "As it is: own, 100 ms at 20 GiB");
  report.planned = false;
  CHECK(alternatives(report).empty());
  CHECK_FALSE(nlohmann::json::parse(to_json_text(report)).contains("ways"));
}

}  // namespace memtune::alternatives_test
