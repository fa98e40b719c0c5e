// A diff in a pipeline must match the right trials, use the right sign and detect what broke.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/answer/report/text/diff_text.h"
#include "core/answer/report/text/json.h"
#include "core/answer/result/sweep_regression_limit.h"
#include "core/base/error.h"
#include "tests/report/sample.h"

namespace memtune::diff_test {

using namespace memtune::report;
using memtune::result::SweepRegressionLimit;
using nlohmann::json;

namespace {

Report two(double ms, int64_t peak) {
  Report report;
  report.rows = {worked("none", 100, 1, 40 * kGiB), worked("offload:stream", ms, 0.5, peak)};
  return report;
}

bool breaks(const std::string& limit, const Report& a, const Report& b) {
  return !SweepRegressionLimit(limit).broken_by(diff(a.rows, b.rows)).empty();
}

}  // namespace

TEST_CASE("trials are matched by strategy and batch and sequence and missing ones are listed") {
  Report a = two(200, 10 * kGiB), b = two(210, 10 * kGiB);
  b.rows[0].batch = 8;
  b.rows.push_back(worked("checkpoint:op", 150, 0, 20 * kGiB));
  const auto rows = diff(a.rows, b.rows);
  REQUIRE(rows.size() == 4);
  CHECK((rows[0].a && !rows[0].b));
  CHECK((rows[1].a == &a.rows[1] && rows[1].b == &b.rows[1]));
  CHECK((!rows[2].a && rows[2].b == &b.rows[0]));
  CHECK((!rows[3].a && rows[3].b == &b.rows[2]));
}

TEST_CASE("the diff table shows both figures and the change and marks possible noise") {
  Report a = two(200, 10 * kGiB), b = two(250, 9 * kGiB);
  a.rows[1].measurement.transfer = {kGiB, kGiB, 0, 0, 0.98, 0.7, 50, 50, 55, 55};
  b.rows[1].measurement.transfer = {kGiB, kGiB, 0, 0, 0.5, 9, 50, 50, 55, 55};
  b.rows[1].measurement.loss = {10.25};
  b.rows.push_back(failed("checkpoint:op", memtune::result::TrialOutcome::crash, "signal 11"));
  a.rows.push_back(worked("checkpoint:op", 150, 0, 20 * kGiB));
  CHECK(diff_table(diff(a.rows, b.rows)) ==
        " strategy        step ms                peak GiB              hidden %\n"
        " none            100.0 → 100.0 0.0 % ~  40.00 → 40.00 0.0 %   –\n"
        " checkpoint:op   A ok; B crash: signal 11\n"
        " offload:stream  200.0 → 250.0 +25.0 %  10.00 → 9.00 -10.0 %  98 → 50   loss 10.500000 → 10.250000\n"
        "\n ~ within the noise of both\n");
}

TEST_CASE("the diff shows different gradient accumulation steps also for a report in JSON") {
  Report a = two(200, 10 * kGiB), b = two(800, 10 * kGiB);
  b.rows[1].passes = 4;
  b = from_json_text(to_json_text(b), "b");
  CHECK(diff_table(diff(a.rows, b.rows))
            .find("200.0 → 800.0 +300.0 %  10.00 → 10.00 0.0 %  steps of 1 pass → 4 passes\n") != std::string::npos);
  const json trials = json::parse(diff_json(diff(a.rows, b.rows))).at("trials");
  CHECK_FALSE(trials[0].contains("passes"));
  CHECK(trials[1].at("passes") == json{{"a", 1}, {"b", 4}});
}

TEST_CASE("the diff of small models uses their unit and enough digits") {
  Report a = two(0.5, 10 << 20), b = two(0.25, 9 << 20);
  for (Report* report : {&a, &b}) report->rows.erase(report->rows.begin());
  const std::string text = diff_table(diff(a.rows, b.rows));
  CHECK(text.find(" peak MiB\n") != std::string::npos);
  CHECK(text.find(" 0.5000 → 0.2500 -50.0 % ") != std::string::npos);
  CHECK(text.find(" 10.00 → 9.00 -10.0 %") != std::string::npos);
}

TEST_CASE("figures in diff JSON are B minus A") {
  const Report a = two(200, 10 * kGiB), b = two(250, 9 * kGiB);
  const json trial = json::parse(diff_json(diff(a.rows, b.rows)))["trials"][1];
  CHECK(trial["strategy"] == "offload:stream");
  CHECK(trial["in"] == "both");
  CHECK(trial["broke"] == false);
  CHECK(trial["step_ms"] == 50.0);
  CHECK(trial["step_ms_may_be_equal"] == false);
  CHECK(trial["peak_bytes"] == -kGiB);
  CHECK(trial["b"]["step_ms"]["median"] == 250);
}

TEST_CASE("limits hold up to their bound in percent and in absolute amounts") {
  const Report a = two(200, 10 * kGiB), b = two(210, 11 * kGiB);
  CHECK(breaks("step>+4.9%", a, b));
  CHECK_FALSE(breaks("step>+5.1%", a, b));
  CHECK(breaks("step>+9ms", a, b));
  CHECK_FALSE(breaks("step>+10ms", a, b));
  CHECK(breaks("peak > 9.9%", a, b));
  CHECK(breaks("peak>+1000MiB", a, b));
  CHECK_FALSE(breaks("peak>+1GiB", a, b));
  CHECK_FALSE(breaks("peak>+2%", b, a));
  CHECK(breaks("step<-4%", b, a));
  CHECK_FALSE(breaks("step<-5%", b, a));
  CHECK(SweepRegressionLimit("step>+2%").broken_by(diff(a.rows, b.rows)) ==
        std::vector<std::string>{"offload:stream: step +5.0 %, limit step>+2%"});
}

TEST_CASE("hidden limits count in points and exposed time after zero exceeds any percentage") {
  Report a = two(200, kGiB), b = two(200, kGiB);
  a.rows[1].measurement.transfer.hidden = 0.9;
  b.rows[1].measurement.transfer.hidden = 0.8;
  CHECK(breaks("hidden<-9%", a, b));
  CHECK_FALSE(breaks("hidden<-11%", a, b));
  b.rows[1].measurement.transfer.exposed_ms = 1;
  CHECK(breaks("exposed>+500%", a, b));
  CHECK_FALSE(breaks("exposed>+500%", a, a));
}

TEST_CASE("a failed trial exceeds no limit but counts as broken") {
  Report a = two(200, kGiB), b = two(200, kGiB);
  b.rows[1] = failed("offload:stream", memtune::result::TrialOutcome::crash, "");
  CHECK_FALSE(diff(a.rows, b.rows)[1].worked_in_both());
  CHECK_FALSE(breaks("peak>+1%", a, b));
  CHECK(diff(a.rows, b.rows)[1].broke());
  CHECK_FALSE(diff(b.rows, a.rows)[1].broke());
  CHECK(memtune::result::diff(a.rows, {})[0].broke());  // missing in B
  CHECK_FALSE(memtune::result::diff({}, a.rows)[0].broke());
}

TEST_CASE("an invalid limit is refused") {
  for (const char* text : {"", "peak", "peak>2", "peek>2%", "peak=2%", "step>2GiB", "hidden<5ms", "peak>2%%"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(SweepRegressionLimit{text}, memtune::UsageError);
  }
}

TEST_CASE("a JSON report is read back unchanged") {
  const Report report = sample_report();
  CHECK(to_json_text(from_json_text(to_json_text(report), "it")) == to_json_text(report));
  CHECK_THROWS_WITH_AS(from_json_text("{}", "x.json"), doctest::Contains("x.json is no report of memtune"),
                       memtune::UsageError);
}

TEST_CASE("untrusted names and reasons cannot control a terminal and stay on one line") {
  const std::string evil = "a\x1b]0;pwned\x07\nmemtune: b";
  Report a = two(200, 10 * kGiB);
  a.rows[0].measurement.strategy = evil;
  a.rows.push_back(failed(evil + "2", memtune::result::TrialOutcome::error, evil));
  Report b = a;
  b.rows.back() = worked(evil + "2", 100, 1, kGiB);
  const std::string table = diff_table(diff(a.rows, b.rows)), json = diff_json(diff(a.rows, b.rows));
  CHECK(table.find("a\xEF\xBF\xBD]0;pwned") != std::string::npos);
  for (const std::string& text : {table, json}) {
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find("\nmemtune:") == std::string::npos);
  }
  for (const std::string& line : SweepRegressionLimit("peak>+0%").broken_by(diff(b.rows, a.rows)))
    CHECK(line.find('\n') == std::string::npos);
}

}  // namespace memtune::diff_test
