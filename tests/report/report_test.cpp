// The order of trials, the reference of each trial, which table, CSV and exports share, and warnings.
#include "core/answer/report/report.h"

#include <doctest/doctest.h>

#include "core/answer/report/words.h"
#include "tests/report/sample.h"

namespace memtune::report_test {

using namespace memtune::report;
using memtune::result::TrialOutcome;

namespace {

std::vector<std::string> order(const Report& report) {
  std::vector<std::string> names;
  for (const memtune::result::TrialResultRow* row : ranked(report.rows)) names.push_back(row->measurement.strategy);
  return names;
}

}  // namespace

TEST_CASE("trials that worked come first by speed and failed ones keep their order") {
  Report report;
  report.rows = {failed("z", TrialOutcome::timeout, ""), worked("slow", 3, 0, 1), failed("a", TrialOutcome::crash, ""),
                 worked("fast", 1, 0, 1)};
  CHECK(order(report) == std::vector<std::string>{"fast", "slow", "z", "a"});
}

TEST_CASE("with a batch axis the highest samples per second come first") {
  Report report;
  report.rows = {worked("small", 100, 0, 1), worked("large", 150, 0, 1)};
  report.rows[0].batch = 1;
  report.rows[1].batch = 2;
  report.rows[0].measurement.samples_per_s = 10;
  report.rows[1].measurement.samples_per_s = 13.3;
  CHECK(order(report) == std::vector<std::string>{"large", "small"});
  report.rows[1].batch = 1;
  CHECK(order(report) == std::vector<std::string>{"small", "large"});
}

TEST_CASE("a trial is compared with the reference of its own batch") {
  Report report;
  report.rows = {worked("none", 1, 0, 1), worked("none", 2, 0, 1), worked("other", 3, 0, 1)};
  report.rows[0].batch = 1;
  report.rows[1].batch = 2;
  report.rows[2].batch = 2;
  CHECK(reference_row(report, report.rows[2]) == &report.rows[1]);
  CHECK(reference_row(report, report.rows[1]) == &report.rows[1]);
  report.rows[2].sequence = 128;
  CHECK(reference_row(report, report.rows[2]) == nullptr);
}

TEST_CASE("a failed reference is no reference") {
  Report report;
  report.rows = {failed("none", TrialOutcome::device_oom, ""), worked("other", 3, 0, 1)};
  CHECK(reference_row(report, report.rows[1]) == nullptr);
}

TEST_CASE("an empty report has an empty ranking") { CHECK(memtune::result::ranked({}).empty()); }

TEST_CASE("a machine is called busy by what other processes took during trials and not by its load before") {
  Report report;
  report.rows = {worked("none", 3, 0, 1)};
  memtune::result::TrialRoundTimesAndMachineLoad round;
  round.cores = 4;
  round.load = 8;
  round.other_cores = 0.9;
  report.rows[0].measurement.rounds = {round};
  CHECK(warnings(report).empty());
  report.rows[0].measurement.rounds[0].other_cores = 1;
  REQUIRE(warnings(report).size() == 1);
  CHECK(warnings(report)[0].starts_with("the machine was busy: other processes kept up to 1.0 of 4 cores busy"));
}

}  // namespace memtune::report_test
