// The report has the prediction of a trial. It stays the same if the trial is not run again.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/plan/rules/strategy.h"
#include "core/sweep/loop/sweep.h"
#include "tests/sweep/sweep_bench.h"

namespace memtune::predicted_trials_test {

using namespace memtune;
using namespace memtune::sweep;
using result::TrialPrediction;

namespace {

// Proposes the baseline and then offload:stream with `predicted` as its prediction.
class Foretelling : public TrialProposer {
 public:
  Foretelling(const std::vector<InspectedModelAtShape>& settings, std::optional<TrialPrediction> predicted)
      : settings_(settings), predicted_(predicted) {}

  std::vector<TrialProposal> next(std::span<const FinishedProposal> tried) override {
    if (!tried.empty()) return {};
    const auto plan = [&](const char* name) {
      return plan::make_plan(plan::Strategy::parse(name), settings_[0].facts.program);
    };
    return {{"none", 0, plan("none")}, {"offload:stream", 0, plan("offload:stream"), predicted_}};
  }

  std::vector<TrialPrediction> frontier(size_t, const Begin& begin) override {
    if (predicted_) begin(1, 2), begin(2, 2);
    return predicted_ ? std::vector<TrialPrediction>{*predicted_, {100, 2000, 90}} : std::vector<TrialPrediction>();
  }

 private:
  const std::vector<InspectedModelAtShape>& settings_;
  std::optional<TrialPrediction> predicted_;
};

struct Bench : test::SweepBench {
  Bench() : SweepBench({"none"}) {}

  // Returns the prediction of the second trial.
  std::optional<TrialPrediction> sweep(std::optional<TrialPrediction> predicted, const std::string& behaviour = "") {
    const test::Variable rules("FAKE_TRIAL", behaviour);
    const auto make = [&](const CandidateStrategiesAndUserPlanFiles&,
                          const std::vector<InspectedModelAtShape>& points) {
      return std::make_unique<Foretelling>(points, predicted);
    };
    const SweepRecordAndReport result = run_sweep(settings, listener, make);
    REQUIRE(result.report.rows.size() == 2);
    CHECK_FALSE(result.report.rows[0].predicted);
    return result.report.rows[1].predicted;
  }

  nlohmann::json second_trial() const {
    return nlohmann::json::parse(read_file(settings.directory / "sweep.json"))["trials"][1];
  }
};

constexpr TrialPrediction kFirst = {268.5, 1000}, kSecond = {1, 2};

}  // namespace

TEST_CASE("a proposal's prediction is in the trial's row and in sweep.json") {
  Bench bench;
  CHECK(bench.sweep(kFirst) == kFirst);
  CHECK(bench.second_trial()["predicted"] == nlohmann::json{{"step_ms", 268.5}, {"peak_bytes", 1000}});
  const RunDirectory directory(bench.settings.directory);
  CHECK(make_report(directory, directory.read_record()).rows[1].predicted == kFirst);
}

TEST_CASE("a trial without a prediction has no such field") {
  Bench bench;
  CHECK_FALSE(bench.sweep({}));
  CHECK_FALSE(bench.second_trial().contains("predicted"));
}

TEST_CASE("a later prediction does not replace that of a measured trial") {
  Bench bench;
  bench.sweep(kFirst);
  bench.starts();
  CHECK(bench.sweep(kSecond) == kFirst);
  CHECK(bench.sweep({}) == kFirst);
  CHECK(bench.starts() == "");
  Bench unpredicted;
  unpredicted.sweep({});
  CHECK_FALSE(unpredicted.sweep(kSecond));
}

TEST_CASE("a trial that runs again gets the latest prediction") {
  Bench bench;
  bench.sweep(kFirst);
  std::filesystem::remove(bench.settings.directory / "trials/2-offload-stream/measurement.json");
  CHECK(bench.sweep(kSecond) == kSecond);
}

TEST_CASE("plans that were only predicted are in sweep.json and in the report") {
  Bench bench;
  bench.sweep(kFirst);
  REQUIRE(bench.listener.planned_on_paper.size() >= 2);
  CHECK(bench.listener.planned_on_paper[0] == "1/2");
  CHECK(bench.listener.planned_on_paper[1] == "2/2");
  const RunDirectory directory(bench.settings.directory);
  const SweepJsonSettingsFactsAndTrials record = directory.read_record();
  const std::vector<result::PredictedFrontier> told = {{{}, {}, {kFirst, {100, 2000, 90}}}};
  CHECK(record.frontiers == told);
  CHECK(make_report(directory, record).frontiers == told);
  bench.sweep({});
  CHECK(directory.read_record().frontiers.empty());
}

}  // namespace memtune::predicted_trials_test
