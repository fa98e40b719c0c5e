// What takes the time of a command's steps, from its records to the measurement.
#include <doctest/doctest.h>

#include "core/measure/attach/process_records_by_rank.h"
#include "core/measure/attach/records.h"
#include "tests/attach/recorded.h"

namespace memtune::time_shares_test {

using namespace memtune;
using namespace memtune::attach;
using memtune::tests::add_line;
using memtune::tests::kProcess;

namespace {

std::string step(int number, const std::string& phase, const std::string& shares) {
  return R"({"record": "step", "step": )" + std::to_string(number) + R"(, "phase": ")" + phase +
         R"(", "ms": 10, "loss": [1], "workers": 3, "unfused": true, "trainer": "trl", "shares": )" + shares + "}\n";
}

std::string shares(const std::string& data, const std::string& forward) {
  return R"({"data": )" + data + R"(, "forward": )" + forward +
         R"(, "backward": 0, "update": 0, "evaluation": 0, "generation": 0, "save": 0, "rest": 2})";
}

TrainingProcessRecords read(const std::string& lines) {
  const test::ScratchFolder place;
  add_line(place.path / "7.jsonl", std::string(kProcess) + "\n" + lines);
  RecordFolderReader folder(place.path);
  folder.poll();
  return folder.processes().at(0);
}

}  // namespace

TEST_CASE("shares are those of the measured steps together") {
  const TrainingProcessRecords records =
      read(step(1, "warmup", "null") + step(2, "warmup", shares("99", "1")) + step(3, "measured", shares("2", "6")) +
           step(4, "measured", shares("4", "4")));
  result::TrialMeasurement measurement;
  fill_measurement(rank_records_of({&records, 1}), measurement);
  REQUIRE(measurement.time_shares.has_value());
  CHECK(measurement.time_shares->data == doctest::Approx(0.3));
  CHECK(measurement.time_shares->forward == doctest::Approx(0.5));
  CHECK(measurement.time_shares->rest == doctest::Approx(0.2));
  CHECK(measurement.time_shares->loader_workers == 3);
  CHECK(measurement.time_shares->unfused);
  CHECK_FALSE(measurement.time_shares->evaluates);
  CHECK(measurement.time_shares->trainer == "trl");
}

TEST_CASE("without shares in the records there are none") {
  const TrainingProcessRecords records = read(step(1, "measured", "null"));
  result::TrialMeasurement measurement;
  fill_measurement(rank_records_of({&records, 1}), measurement);
  CHECK_FALSE(measurement.time_shares.has_value());
}

TEST_CASE("a step with an impossible part is refused") {
  for (const char* bad : {"-1", "1e300", "null", "\"9\""}) {
    const TrainingProcessRecords records = read(step(1, "measured", shares(bad, "1")));
    CHECK(records.steps.empty());
    CHECK_FALSE(records.refused.empty());
  }
}

}  // namespace memtune::time_shares_test
