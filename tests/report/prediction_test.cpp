// Predictions next to measurements, and the time that more memory would save, in every report format.
#include "core/answer/report/prediction.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/answer/report/html/html.h"
#include "core/answer/report/text/csv.h"
#include "core/answer/report/text/json.h"
#include "core/answer/report/text/markdown.h"
#include "core/answer/report/text/table.h"
#include "core/answer/report/words.h"
#include "core/base/text.h"
#include "tests/report/sample.h"

namespace memtune::prediction_test {

using namespace memtune;
using namespace memtune::report;

namespace {

// Under 16 GiB. One plan's prediction is too fast, another's too slow and too large; a third plan ran out of memory.
Report planned() {
  Report report;
  report.device = "NVIDIA H200";
  report.budget_bytes = 16 * kGiB;
  report.rows = {worked("none", 250, 1, 36 * kGiB), worked("plan:16GiB", 300, 1, 15 * kGiB),
                 worked("plan:20GiB", 280, 1, 20 * kGiB),
                 failed("plan:8GiB", result::TrialOutcome::device_oom, "asked for 2 GiB")};
  report.rows[1].predicted = {288, 15 * kGiB};
  report.rows[2].predicted = {282.8, 25 * kGiB};
  report.rows[3].predicted = {402.5, 8 * kGiB};
  report.rows[1].recommended = true;
  report.recommendation = {"plan:16GiB", "the fastest", true, {}, {}};
  return report;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::string kTold =
    "2 trials: step time off by 2.5 % in the median and 4.0 % at most, the peak by 12.5 % and 25.0 %; 1 more did not "
    "work";
const std::string kMore = "each GiB more would save 4.0 ms a step, up to 20 GiB (plan:20GiB: 280.0 ms)";

}  // namespace

TEST_CASE("the table shows predictions next to measurements with the error") {
  CHECK(table(planned(), {false, 120}) ==
        R"( NVIDIA H200

   strategy        step ms  × none  predicted ms  peak GiB   −GiB  predicted GiB  samples/s  gradients
 ─────────────────────────────────────────────────────────────────────────────────────────────────────
   none        250.0 ± 1.0    1.00             –     36.00      –              –      16.00  reference
   plan:20GiB  280.0 ± 1.0    1.12  282.8 +1.0 %     20.00  16.00  25.00 +25.0 %      14.29  equal
 * plan:16GiB  300.0 ± 1.0    1.20  288.0 -4.0 %     15.00  21.00  15.00   0.0 %      13.33  equal
 ─────────────────────────────────────────────────────────────────────────────────────────────────────
 ✗ plan:8GiB   device_oom: asked for 2 GiB; predicted: 402.5 ms a step, 8 GiB at the peak

 * recommended
 step ms: median ± half of its 95 % interval; × none: step time over none's; predicted ms: step time predicted
 before the trial ran, and its error against the measured one; peak GiB: the most that tensors held at once;
 −GiB: below none's peak; predicted GiB: peak predicted before the trial ran, and its error

 Recommended: plan:16GiB: the fastest
 More memory: each GiB more would save 4.0 ms a step, up to 20 GiB (plan:20GiB: 280.0 ms)
 Predicted: 2 trials: step time off by 2.5 % in the median and 4.0 % at most, the peak by 12.5 % and 25.0 %; 1
            more did not work
)");
}

TEST_CASE("a narrow terminal keeps the summary of predictions") {
  const std::string text = table(planned(), {false, 60});
  CHECK_FALSE(has(text, "predicted ms  "));
  CHECK(has(text, "no room at 60 columns for"));
  CHECK(has(text, " Predicted: 2 trials: step time off by 2.5 % in the median"));
}

TEST_CASE("Markdown and the page word predictions and more memory alike") {
  const Report report = planned();
  CHECK(predictions_text(report) == kTold);
  CHECK(more_memory_text(report) == kMore);
  CHECK(has(markdown(report), "\n**More memory:** " + kMore + "\n\n**Predicted:** " + kTold + "\n"));
  CHECK(has(html(report, {}), "<p><b>More memory:</b> " + kMore + "</p>\n<p><b>Predicted:</b> " + kTold + "</p>"));
  CHECK(has(html(report, {}), ">predicted ms</th>"));
  CHECK(has(html(report, {}), "<td>288.0 -4.0 %</td>"));
  CHECK(has(markdown(report), "; predicted: 402.5 ms a step, 8 GiB at the peak\n"));
}

TEST_CASE("a single prediction has no median error") {
  Report report = planned();
  report.rows[2].predicted = report.rows[3].predicted = {};
  CHECK(predictions_text(report) == "1 trial: step time off by 4.0 %, the peak by 0.0 %");
}

TEST_CASE("CSV has prediction columns after the measurements only if something was predicted") {
  const std::vector<std::string> lines = split(csv(planned()), '\n');
  CHECK(lines[0].ends_with(
      ",machine,predicted_step_ms,predicted_peak_bytes,predicted_step_error,predicted_peak_error,no_effect"));
  CHECK(lines[1].ends_with(",,,,,"));
  CHECK(has(lines[3], ",282.8,26843545600,0.01"));
  CHECK(lines[3].ends_with(",0.25,"));
  CHECK(lines[4].ends_with(",402.5,8589934592,,,"));
  CHECK(split(csv(sample_report()), '\n')[0].ends_with(",machine,no_effect"));
}

TEST_CASE("JSON has the time that the next GiB saves and the strategy that uses it") {
  const auto advice = nlohmann::json::parse(to_json_text(planned()))["recommendation"];
  CHECK(advice["next_gib_ms"].get<double>() == doctest::Approx(4));
  CHECK(advice["next_gib_strategy"] == "plan:20GiB");
  CHECK(advice["next_gib_peak_bytes"] == 20 * kGiB);
  CHECK_FALSE(nlohmann::json::parse(to_json_text(sample_report()))["recommendation"].contains("next_gib_ms"));
}

TEST_CASE("more memory has no price under the goal memory or without a recommendation") {
  Report report = planned();
  report.goal = result::RecommendationGoal::memory;
  CHECK(more_memory_text(report) == "");
  report = planned();
  report.rows[1].recommended = false;
  CHECK(more_memory_text(report) == "");
}

TEST_CASE("a small model reports the time that the next MiB saves") {
  Report report = planned();
  for (result::TrialResultRow& row : report.rows) row.measurement.peak_bytes.allocated /= 1024;
  report.budget_bytes /= 1024;
  CHECK(more_memory_text(report) == "each MiB more would save 4.0 ms a step, up to 20 MiB (plan:20GiB: 280.0 ms)");
}

TEST_CASE("a sweep without predictions reports none") {
  CHECK(predictions_text(sample_report()) == "");
  CHECK_FALSE(has(table(sample_report(), {false, 200}), "redicted"));
  CHECK_FALSE(has(markdown(sample_report()), "redicted"));
}

TEST_CASE("the notes compare a plan's predicted time with its lower bound") {
  Report report = report::sample_report();
  CHECK(bounds_text(report).empty());
  report.rows[4].predicted = {270, 20 * kGiB, 265};
  const std::string said = "checkpoint:op: 270.0 ms predicted; the lower bound for this memory is 265.0 ms";
  CHECK(bounds_text(report) == std::vector<std::string>{said});
  CHECK(std::ranges::count(notes(report), said) == 1);
}

}  // namespace memtune::prediction_test
