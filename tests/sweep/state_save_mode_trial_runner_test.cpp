// After the rounds, a process measures each save mode under the recommended plan. Its results are kept as those of
// trials are; its states are deleted.
#include "core/sweep/loop/state_save_mode_trial_runner.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "core/answer/result/save_interval.h"
#include "core/base/file.h"
#include "core/base/vocabulary.h"
#include "tests/sweep/sweep_bench.h"

namespace memtune::save_mode_trials_test {

using namespace memtune;
using namespace memtune::sweep;
using memtune::result::TrialOutcome;

namespace {

struct Saves : test::SweepBench {
  Saves() : SweepBench({"none", "checkpoint:full", "offload:stream"}) {
    settings.save_modes = kSaveModes;
    settings.budget_bytes = int64_t{10} << 30;  // so that checkpoint:full is recommended
  }
  std::filesystem::path states() const { return settings.directory / "saving"; }
};

const std::string& first = kSaveModes.front();

// Returns what the fake trial logs, one line per save mode.
std::string all_modes(const std::string& strategy) {
  std::string text;
  for (const std::string& mode : kSaveModes) text += "save " + mode + " under " + strategy + "\n";
  return text;
}

std::vector<result::StateSaveModeMeasurement> saves_of(const SweepRecordAndReport& result,
                                                       const std::string& strategy) {
  return std::ranges::find(result.report.rows, strategy,
                           [](const result::TrialResultRow& row) { return row.measurement.strategy; })
      ->saves;
}

}  // namespace

TEST_CASE("each save mode is measured under the recommended plan after the rounds") {
  Saves bench;
  const SweepRecordAndReport result = bench.run();
  REQUIRE(result.report.recommendation.strategy == "checkpoint:full");
  CHECK(bench.starts() == "inspect\nnone\ncheckpoint:full\noffload:stream\n" + all_modes("checkpoint:full"));
  const auto saves = saves_of(result, "checkpoint:full");
  REQUIRE(saves.size() == kSaveModes.size());
  for (size_t i = 0; i < saves.size(); ++i) CHECK(saves[i].mode == kSaveModes[i]);
  CHECK(saves[0].blocked_ms == 1000);
  CHECK(saves[1].blocked_ms == 100);
  CHECK(saves[1].slowdown.value_or(0) == doctest::Approx(1.1));
  CHECK(saves_of(result, "none").empty());
  CHECK(bench.listener.saves.front() == first + ", " + std::to_string(saves.size()) + " left");
  CHECK(bench.listener.saves.back() == kSaveModes.back() + ", 1 left");
}

TEST_CASE("measured states are deleted even after a crash") {
  Saves bench;
  bench.run();
  CHECK_FALSE(std::filesystem::exists(bench.states()));
  Saves crashing;
  crashing.run("save " + first + "=crash");
  CHECK_FALSE(std::filesystem::exists(crashing.states()));
}

TEST_CASE("states of a killed memtune are deleted by the next one and foreign files stay") {
  Saves bench;
  const auto left = bench.states() / "states/step-00000007";
  std::filesystem::create_directories(left);
  std::ofstream(left / "shard-00001-model-00001-of-00001.safetensors") << "cut off";
  std::ofstream(bench.states() / "notes.txt") << "mine";
  bench.run();
  CHECK_FALSE(std::filesystem::exists(left));
  CHECK(std::filesystem::exists(bench.states() / "notes.txt"));
}

TEST_CASE("a link in place of the states folder is refused and its target stays unchanged") {
  Saves bench;
  const auto run = bench.folder.path / "training";
  std::filesystem::create_directories(run / "states/step-00000002");
  std::ofstream(run / "states/step-00000002/manifest.json") << "a state";
  std::filesystem::create_directories(bench.settings.directory);
  std::filesystem::create_directory_symlink(run, bench.states());
  const auto saves = saves_of(bench.run(), "checkpoint:full");
  CHECK(saves.size() == kSaveModes.size());
  for (const auto& save : saves) {
    CHECK(save.outcome == TrialOutcome::disk_error);
    CHECK(save.reason.find("saving") != std::string::npos);
  }
  CHECK(bench.starts().find("save ") == std::string::npos);
  CHECK(std::filesystem::exists(run / "states/step-00000002/manifest.json"));
}

TEST_CASE("a repeated sweep measures no saves again and one without saves still shows them") {
  Saves bench;
  bench.run();
  bench.starts();
  CHECK(saves_of(bench.run(), "checkpoint:full").size() == kSaveModes.size());
  CHECK(bench.starts() == "");
  bench.settings.save_modes = {};
  CHECK(saves_of(bench.run(), "checkpoint:full").size() == kSaveModes.size());
  CHECK(bench.starts() == "");
}

TEST_CASE("a save mode that is added later is measured alone and listed in the usual order") {
  Saves bench;
  bench.settings.save_modes = {kSaveModes.back()};
  bench.run();
  bench.starts();
  bench.settings.save_modes = {kSaveModes.back(), first};
  const auto saves = saves_of(bench.run(), "checkpoint:full");
  CHECK(bench.starts() == "save " + first + " under checkpoint:full\n");
  REQUIRE(saves.size() == 2);
  CHECK(saves[0].mode == first);
}

TEST_CASE("saves without an end in the journal are measured again") {
  Saves bench;
  bench.settings.save_modes = {first};
  bench.run();
  bench.starts();
  const auto journal = bench.settings.directory / "journal.jsonl";
  const std::string text = read_file(journal);
  write_file(journal, text.substr(0, text.size() - 20));
  bench.run();
  CHECK(bench.starts() == "save " + first + " under checkpoint:full\n");
}

TEST_CASE("a failed save mode is reported with its reason and the others are measured") {
  Saves bench;
  const SweepRecordAndReport result = bench.run("save " + first + "=crash");
  const auto saves = saves_of(result, "checkpoint:full");
  REQUIRE(saves.size() == kSaveModes.size());
  CHECK(saves[0].outcome == TrialOutcome::crash);
  CHECK(saves[0].reason.find("something is rotten") != std::string::npos);
  CHECK(saves[1].outcome == TrialOutcome::ok);
  CHECK(result::advise(saves, 100, 3600)->mode != first);
  CHECK_FALSE(result.interrupted);
}

TEST_CASE("a usage error and a timeout of a save are rows too") {
  Saves bench;
  bench.settings.save_modes = {first};
  const auto usage = saves_of(bench.run("save " + first + "=usage"), "checkpoint:full");
  CHECK(usage.at(0).outcome == TrialOutcome::error);
  CHECK(usage.at(0).reason == "the model rejects the input");
  Saves slow;
  slow.settings.save_modes = {first};
  slow.settings.limit = std::chrono::milliseconds(700);
  const auto timeout = saves_of(slow.run("save " + first + "=hang"), "checkpoint:full");
  CHECK(timeout.at(0).outcome == TrialOutcome::timeout);
  CHECK(timeout.at(0).reason == "no end within 0.7 s, in phase saving, step 1 of 4");
}

TEST_CASE("saves that failed on a full disk run again and crashed ones only with --retry") {
  for (const auto& [behaviour, again] : {std::pair("disk_full", true), std::pair("crash", false)}) {
    const std::string how = behaviour;
    CAPTURE(how);
    Saves bench;
    bench.settings.save_modes = {first};
    const std::string rule = "save " + first + "=" + behaviour;
    CHECK(saves_of(bench.run(rule), "checkpoint:full").at(0).outcome == result::parse_outcome(behaviour));
    bench.starts();
    bench.run(rule);
    CHECK(bench.starts().empty() == !again);
    bench.settings.reuse = EarlierTrialReusePolicy::worked;
    CHECK(saves_of(bench.run(), "checkpoint:full").at(0).outcome == TrialOutcome::ok);
  }
}

TEST_CASE("the mean time between failures and the number of states are kept with the sweep") {
  Saves bench;
  bench.settings.mtbf_s = 43200;
  bench.settings.keep_last = 3;
  bench.run();
  const RunDirectory directory(bench.settings.directory);
  const report::Report report = make_report(directory, directory.read_record());
  CHECK(report.mtbf_s == 43200);
  CHECK(report.keep_last == 3);
}

TEST_CASE("no saves are measured without a recommendation or in a dry run") {
  Saves bench;
  bench.settings.budget_bytes = 5000;
  CHECK_FALSE(bench.run().report.recommendation.fits);
  CHECK(bench.listener.saves.empty());
  Saves dry;
  dry.settings.dry_run = true;
  dry.run();
  CHECK(dry.starts() == "inspect\n");
}

}  // namespace memtune::save_mode_trials_test
