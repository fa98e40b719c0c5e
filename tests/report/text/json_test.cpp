// Scripts read these names. None may vanish, and the text must be valid JSON for any model name.
#include "core/answer/report/text/json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/report/sample.h"

namespace memtune::text_json_test {

using namespace memtune;
using namespace memtune::report;
using nlohmann::json;

TEST_CASE("a trial in JSON has the field names of the contract") {
  json trial = json::parse(to_json_text(sample_report()))["trials"][1];
  CHECK(trial["strategy"] == "checkpoint:full,inputs=host");
  CHECK(trial["outcome"] == "ok");
  CHECK(trial["reason"] == "");
  CHECK(trial["step_ms"] == json{{"median", 320}, {"low", 319.5}, {"high", 320.5}, {"samples", {319.5, 320, 320.5}}});
  CHECK(trial["peak_bytes"]["allocated"] == 12 * kGiB);
  CHECK(trial["peak_bytes"]["reserved"] == 12 * kGiB);
  CHECK(trial["samples_per_s"] == 12.5);
  CHECK(trial["transfer"]["out_bytes"] == kGiB);
  CHECK(trial["transfer"]["in_bytes"] == kGiB);
  CHECK(trial["transfer"]["hidden"] == 0.98);
  CHECK(trial["transfer"]["exposed_ms"] == 0.7);
  CHECK(trial["loss"] == json{10.5});
  CHECK(trial["gradients"]["equal"] == true);
  CHECK(trial["gradients"]["max_abs_difference"] == 0.0);
  CHECK(trial.contains("plan"));
  CHECK(trial.contains("trace"));
}

TEST_CASE("JSON has the recommendation and the facts of the run next to the trials") {
  json all = json::parse(to_json_text(sample_report()));
  CHECK(all["trials"].size() == 5);
  CHECK(all["recommendation"] == json{{"strategy", "checkpoint:full,inputs=host"},
                                      {"reason", "the fastest of two that keep 16 GiB"},
                                      {"fits", true}});
  CHECK(all["version"] == "0.1.0");
  CHECK(all["model"] == "model.pt");
  CHECK(all["device"] == "NVIDIA H200");
  CHECK(all["reference"] == "none");
  CHECK(all["emulated"] == false);
  CHECK(all["notes"] == json::array());
}

TEST_CASE("JSON has the origin and reads it back") {
  Report report = sample_report();
  report.origin = {"2026-11-22T07:30:00Z", "memtune sweep", "model.pt", "0.1.0", "2.11.0", "580.65", "AMD, 4 cores"};
  const std::string text = to_json_text(report);
  CHECK(json::parse(text)["origin"]["command"] == "memtune sweep");
  CHECK(json::parse(text)["origin"]["torch"] == "2.11.0");
  CHECK(from_json_text(text, "it").origin.machine == "AMD, 4 cores");
  json before = json::parse(text);
  before.erase("origin");  // as earlier versions wrote it
  CHECK(from_json_text(before.dump(), "it").origin.command == "");
}

TEST_CASE("JSON has predictions with signed errors and reads them back") {
  Report report = sample_report();
  CHECK_FALSE(json::parse(to_json_text(report))["trials"][1].contains("predicted"));
  report.rows[1].predicted = {400, 9 * kGiB};  // measured: 320 ms and 12 GiB
  report.rows[0].predicted = {300, kGiB};      // failed
  const std::string text = to_json_text(report);
  const json trials = json::parse(text)["trials"];
  CHECK(trials[1]["predicted"] ==
        json{{"step_ms", 400.0}, {"peak_bytes", 9 * kGiB}, {"step_error", 0.25}, {"peak_error", -0.25}});
  CHECK(trials[0]["predicted"] == json{{"step_ms", 300.0}, {"peak_bytes", kGiB}});
  CHECK(from_json_text(text, "it").rows[1].predicted == report.rows[1].predicted);
  CHECK_FALSE(from_json_text(text, "it").rows[2].predicted);
}

TEST_CASE("JSON adds marks and axes to the trial") {
  Report report = sample_report();
  report.rows[1].batch = 4;
  report.recommendation.batch = 4;
  json all = json::parse(to_json_text(report));
  CHECK(all["trials"][1]["pareto"] == true);
  CHECK(all["trials"][1]["recommended"] == true);
  CHECK(all["trials"][1]["batch"] == 4);
  CHECK_FALSE(all["trials"][1].contains("sequence"));
  CHECK(all["recommendation"]["batch"] == 4);
}

TEST_CASE("a file name that is not UTF-8 does not lose the report") {
  Report report;
  report.model = "mod\xff.pt";
  CHECK(json::parse(to_json_text(report))["model"] == "mod\xef\xbf\xbd.pt");
}

TEST_CASE("JSON of an empty report has no trials and ends with a line feed") {
  std::string text = to_json_text(Report{});
  CHECK(json::parse(text)["trials"] == json::array());
  CHECK(text.back() == '\n');
}

TEST_CASE("findings in JSON have their rule and advice and evidence") {
  Report report = sample_report();
  CHECK(json::parse(to_json_text(report))["findings"] == json::array());
  report.findings = {{findings::Severity::problem,
                      "waits",
                      "compute waits",
                      "prefetch=2",
                      4.5,
                      7,
                      0.1,
                      {10, 20, {3, 1}, memtune::trace::ValueId(2), "offload:stream"},
                      "offload:group,prefetch=2"}};
  CHECK(json::parse(to_json_text(report))["findings"] ==
        json::parse(R"([{"severity": "problem", "rule": "waits", "what": "compute waits", "advice": "prefetch=2",
                         "instead": "offload:group,prefetch=2",
                         "ms_per_step": 4.5, "bytes": 7,
                         "evidence": {"strategy": "offload:stream", "start_ns": 10, "end_ns": 20, "events": [3, 1],
                                      "value": 2}}])"));
}

TEST_CASE("JSON has the frontier and the lower bound of a plan and reads them back") {
  Report report = sample_report();
  report.frontiers = {{{}, {}, {{320, 8 * kGiB, 310}, {260, 30 * kGiB, 259}}}};
  report.rows[4].predicted = {270, 20 * kGiB, 265};
  const json answer = json::parse(to_json_text(report));
  CHECK(answer["frontiers"][0]["plans"][1]["step_ms"] == 260);
  CHECK(answer["trials"][4]["predicted"]["least_ms"] == 265);
  const Report read = from_json_text(answer.dump(), "it");
  CHECK(read.frontiers == report.frontiers);
  CHECK(read.rows[4].predicted == report.rows[4].predicted);
  CHECK_FALSE(json::parse(to_json_text(sample_report())).contains("frontiers"));
}

}  // namespace memtune::text_json_test
