// Strategies contain commas and reasons may contain anything. Without quoting they would shift columns.
#include "core/answer/report/text/csv.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/base/text.h"
#include "tests/report/sample.h"

namespace memtune::csv_test {

using namespace memtune::report;

namespace {

std::string line(const Report& report, size_t number) { return memtune::split(csv(report), '\n')[number]; }

}  // namespace

TEST_CASE("a CSV line has as many fields as the header") {
  Report report;
  report.rows = {worked("none", 250, 1, kGiB)};
  report.rows[0].batch = 4;
  CHECK(line(report, 1) ==
        "none,4,,ok,,250,249,251,false,1073741824,1073741824,0,0,0,16,0,0,0,0,0,0,0,0,0,0,0,0,0,10.5,true,0,,false,"
        "false,NVIDIA H200,false,,,,,,,");
  auto commas = [](const std::string& text) { return std::count(text.begin(), text.end(), ','); };
  CHECK(commas(line(report, 0)) == commas(line(report, 1)));
  CHECK(line(report, 0).starts_with("strategy,batch,sequence,outcome,reason,step_ms,"));
}

TEST_CASE("CSV quotes commas and quotes and line feeds") {
  Report report;
  report.rows = {failed("checkpoint:full,inputs=host", memtune::result::TrialOutcome::error, "said \"no\"\nand left")};
  CHECK(csv(report).find("\n\"checkpoint:full,inputs=host\",,,error,\"said \"\"no\"\"\nand left\",,,,false,") !=
        std::string::npos);
}

TEST_CASE("CSV leaves figures of a failed trial empty instead of zero") {
  Report report;
  report.rows = {failed("none", memtune::result::TrialOutcome::device_oom, "x")};
  CHECK(line(report, 1) == "none,,,device_oom,x,,,,false,,,,,,,,,,,,,,,,,,,,,,,,false,false,,false,,,,,,,");
}

TEST_CASE("CSV of an empty report is its header") {
  std::string text = csv(Report{});
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(text.back() == '\n');
}

TEST_CASE("each CSV line has its origin so that lines of several sweeps fit one table") {
  Report report = sample_report();
  report.origin = {"2026-11-22T07:30:00Z", "memtune sweep", "model.pt", "0.1.0", "2.11.0", "580.65", "AMD, 4 cores"};
  CHECK(line(report, 0).ends_with(",written,command,memtune,torch,driver,machine,no_effect"));
  CHECK(line(report, 2).ends_with(",2026-11-22T07:30:00Z,memtune sweep,0.1.0,2.11.0,580.65,\"AMD, 4 cores\","));
}

TEST_CASE("CSV neutralizes spreadsheet formulas and terminal escapes") {
  Report report;
  report.rows = {failed("=HYPERLINK(1)", memtune::result::TrialOutcome::error, "\x1b[31m@x")};
  CHECK(line(report, 1).starts_with("'=HYPERLINK(1),,,error,\xEF\xBF\xBD[31m@x,"));
  report.rows = {failed("none", memtune::result::TrialOutcome::error, "-2+3")};
  CHECK(line(report, 1).starts_with("none,,,error,'-2+3,"));
}

}  // namespace memtune::csv_test
