// A table and one sentence report how often to save. The tests compare both whole, in every report format.
#include "core/answer/report/saving.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/answer/report/html/html.h"
#include "core/answer/report/text/json.h"
#include "core/answer/report/text/markdown.h"
#include "core/answer/report/text/table.h"
#include "core/base/text.h"
#include "tests/report/sample.h"

namespace memtune::saving_test {

using namespace memtune;
using namespace memtune::report;

namespace {

result::StateSaveModeMeasurement save(const std::string& mode, double blocked_ms, double durable_ms) {
  result::StateSaveModeMeasurement save;
  save.mode = mode;
  save.bytes = 4 * kGiB;
  save.blocked_ms = blocked_ms;
  save.most_blocked_ms = blocked_ms + 10;
  save.durable_ms = durable_ms;
  save.load_ms = 5000;
  return save;
}

// A step takes 320 ms. async costs 250 ms and a fifth of 4000: by Daly's formula 300.5 s at 12 h.
Report with_saves(double mtbf_s) {
  Report report = sample_report();
  report.mtbf_s = mtbf_s;
  std::vector<result::StateSaveModeMeasurement>& saves = report.rows[1].saves;
  saves = {save("sync", 4000, 4000), save("async", 250, 4250), save("third", 0, 0)};
  saves[1].slowdown = 1.25;
  saves[1].host_bytes = 4 * kGiB;
  saves[2].outcome = result::TrialOutcome::disk_full;
  saves[2].reason = "no space left";
  return report;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string behind_recommendation(const std::string& table) {
  const size_t begin = table.find("\n\n", table.find("Recommended")) + 2;
  return table.substr(begin, table.find("\n note") - begin);
}

}  // namespace

TEST_CASE("the save table follows the recommendation and marks the best mode with its interval") {
  CHECK(behind_recommendation(table(with_saves(43200), {false, 120})) ==
        R"(   saving state  blocked ms  most ms  durable ms  × step  state GiB  host GiB  every  cost %
 ───────────────────────────────────────────────────────────────────────────────────────────
   sync              4000.0   4010.0      4000.0       –       4.00      0.00   1829    1.37
 * async              250.0    260.0      4250.0    1.25       4.00      4.00    939    0.72
 ✗ third: disk_full: no space left
 blocked ms: median time that training waited for a save; durable ms: time until the save was on disk; × step:
 time of steps during a save over that of other steps; – too few such steps; every: steps from one save to the
 next; cost %: share of the time that saves and failures cost

 Saving: with a failure every 12 h: async every 939 steps (5 min), 0.72 % of the time
)");
}

TEST_CASE("without --mtbf the save advice covers three failure rates and no mode is marked") {
  const std::string text = behind_recommendation(table(with_saves(0), {false, 120}));
  CHECK(has(text, "   async              250.0"));
  CHECK_FALSE(has(text, "every  cost %"));
  CHECK(has(text, " Saving: with a failure every 1 h: async every 270 steps (86.4 s), 2.67 % of the time; with a"));
  const std::string advice = saving_advice(with_saves(0).rows[1], 0);
  CHECK(
      has(advice,
          "; with a failure every 12 h: async every 939 steps (5 min), 0.72 % of the time; with a failure every 7 d"));
}

TEST_CASE("failed save modes have their reasons and no advice") {
  Report report = with_saves(43200);
  for (result::StateSaveModeMeasurement& each : report.rows[1].saves) each.outcome = result::TrialOutcome::crash;
  const std::string text = table(report);
  CHECK(has(text, "✗ sync: crash"));
  CHECK_FALSE(has(text, "Saving:"));
  CHECK_FALSE(has(text, "saving state"));
  CHECK(has(markdown(report), "✗ sync: crash"));
  CHECK_FALSE(nlohmann::json::parse(to_json_text(report)).contains("saving"));
}

TEST_CASE("Markdown and the page and JSON have the same save advice") {
  const Report report = with_saves(43200);
  const std::string advice = "with a failure every 12 h: async every 939 steps (5 min), 0.72 % of the time";
  const std::string page = html(report, {});
  CHECK(has(markdown(report), "**Saving:** " + advice));
  CHECK(has(markdown(report), "| \\* | async | 250.0 | 260.0 | 4250.0 | 1.25 | 4.00 | 4.00 | 939 | 0.72 |"));
  CHECK(has(markdown(report), "- ✗ third: disk_full: no space left"));
  CHECK(has(page, "<h2>Saving the training&#39;s state</h2>\n<p>" + advice));
  CHECK(has(page, "<td>4250.0</td>"));
  CHECK(has(page, "✗ third: disk_full: no space left"));
  const nlohmann::json json = nlohmann::json::parse(to_json_text(report));
  CHECK(json.at("trials").at(1).at("saves").at(1).at("slowdown") == 1.25);
  CHECK(json.at("saving").at("mode") == "async");
  CHECK(json.at("saving").at("every_steps") == 939);
  CHECK_FALSE(json.at("trials").at(0).contains("saves"));
}

TEST_CASE("a step time of zero read from a file gives save costs without an interval") {
  Report report = with_saves(43200);
  report.rows[1].measurement.step_ms = {};
  const std::string text = table(report, {false, 120});
  CHECK(has(text, "   async              250.0"));
  CHECK_FALSE(has(text, "Saving:"));
}

TEST_CASE("saves of a trial that is no longer recommended are not reported") {
  Report report = with_saves(43200);
  report.rows[1].recommended = false;
  CHECK(saving_row(report) == nullptr);
  CHECK_FALSE(has(table(report), "saving state"));
}

TEST_CASE("durations use the unit with the fewest digits") {
  CHECK(duration_text(4.25) == "4.2 s");
  CHECK(duration_text(90) == "90 s");
  CHECK(duration_text(300) == "5 min");
  CHECK(duration_text(3600) == "1 h");
  CHECK(duration_text(5400) == "90 min");
  CHECK(duration_text(12 * 3600) == "12 h");
  CHECK(duration_text(7 * 86400) == "7 d");
}

}  // namespace memtune::saving_test
