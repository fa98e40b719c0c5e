// The prediction of a trial, from the sweep folder into every report, and kept when the sweep resumes.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/run_program.h"

namespace memtune::predicted_test {

using memtune::test::Ended;
using memtune::test::slurp;
using memtune::test::Workspace;
using nlohmann::json;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A sweep after one round. Its checkpoint:full (125 ms, 8 GiB) was predicted with 120 ms and 10 GiB.
struct PredictedSweep : Workspace {
  PredictedSweep() {
    memtune("sweep -q --model tiny --sweep quick --rounds 1");
    const auto path = folder.path / "memtune-run/sweep.json";
    json sweep = json::parse(slurp(path));
    sweep["trials"][1]["predicted"] = {{"step_ms", 120.0}, {"peak_bytes", 10 * kGiB}};
    std::ofstream(path) << sweep;
  }
};

json predicted_in(const std::string& answer) { return json::parse(answer)["trials"][1].value("predicted", json()); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("report has a prediction in every format") {
  const PredictedSweep place;
  CHECK(predicted_in(place.memtune("report -q --format json").out) ==
        json{{"step_ms", 120.0}, {"peak_bytes", 10 * kGiB}, {"step_error", 120.0 / 125 - 1}, {"peak_error", 0.25}});
  CHECK(has(place.memtune("report -q").out, " Predicted: 1 trial: step time off by 4.0 %, the peak by 25.0 %\n"));
  CHECK(has(place.memtune("report -q --format markdown").out, " 120.0 -4.0 % "));
  CHECK(has(place.memtune("report -q --format csv").out, ",predicted_step_ms,"));
  CHECK(has(place.memtune("report -q --format html -o -").out, "<td>120.0 -4.0 %</td>"));
}

TEST_CASE("a resumed sweep and a dry run print the prediction") {
  const PredictedSweep place;
  const std::string sweep = "sweep --model tiny --sweep quick --rounds 2 ";
  CHECK(has(place.memtune(sweep + "--dry-run").out,
            "checkpoint:full  # predicted: 120.0 ms a step, 10 GiB at the peak\n"));
  const Ended ended = place.memtune(sweep + "--json -");
  CHECK(has(ended.err, " checkpoint:full, round 2  125.0 ms, 8 GiB; predicted 120.0 ms, 10 GiB\n"));
  CHECK(has(ended.err, " offload:stream, round 2  110.0 ms, 12 GiB\n"));
  CHECK(predicted_in(ended.out)["step_ms"] == 120.0);
}

TEST_CASE("diff has the predictions of both sides also for reports in JSON") {
  const PredictedSweep place;
  place.memtune("report -q --format json -o before.json");
  const json diff = json::parse(place.memtune("diff before.json memtune-run --format json").out);
  for (const json& trial : diff["trials"]) {
    const bool predicted = trial["strategy"] == "checkpoint:full";
    CHECK(trial["a"].contains("predicted") == predicted);
    CHECK(trial["b"].contains("predicted") == predicted);
  }
}

}  // namespace memtune::predicted_test
