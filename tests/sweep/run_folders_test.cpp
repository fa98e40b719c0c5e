// A question that is asked without --out has a folder of its own. An answer is never replaced by that of another
// question, and what another question has measured is not measured again.
#include "core/sweep/directory/run_folders.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/sweep/directory/copied_trial_and_its_py_torch_version.h"
#include "tests/sweep/sweep_bench.h"

namespace memtune::run_folders_test {

using namespace memtune;
using namespace memtune::sweep;
namespace fs = std::filesystem;

namespace {

struct Bench : test::SweepBench {
  fs::path link = folder.path / "memtune-run", first = folder.path / "memtune-runs/first",
           second = folder.path / "memtune-runs/second";
  explicit Bench(int rounds = 1) : SweepBench({"none", "checkpoint:full"}, rounds) {}

  SweepRecordAndReport run_in(const fs::path& run_folder, const std::string& behaviour = "") {
    settings.directory = run_folder;
    settings.other_runs = runs_beside(run_folder);
    return run(behaviour);
  }
};

}  // namespace

TEST_CASE("the same question has the same folder and another question another") {
  const nlohmann::json question = {{"model", "tiny"}, {"budget_bytes", 8}};
  const fs::path folder = folder_of_question("./memtune-run", "small (profile)", question);
  CHECK(folder == folder_of_question("./memtune-run", "small (profile)", question));
  CHECK(folder.parent_path() == "./memtune-runs");
  CHECK(folder.filename().string().starts_with("small-profile-"));
  nlohmann::json other = question;
  other["budget_bytes"] = 9;
  CHECK(folder != folder_of_question("./memtune-run", "small (profile)", other));
  CHECK(folder_of_question("x", std::string(300, 'a') + "/../b", question).filename().string().size() < 60);
}

TEST_CASE("the link leads to the newest answer and a run without one does not take its place") {
  Bench bench;
  set_latest(bench.link, bench.first, false);
  CHECK(fs::read_symlink(bench.link) == "memtune-runs/first");  // nothing better is there
  bench.run_in(bench.second);
  set_latest(bench.link, bench.second, true);
  CHECK(fs::read_symlink(bench.link) == "memtune-runs/second");
  set_latest(bench.link, bench.first, false);
  CHECK(fs::read_symlink(bench.link) == "memtune-runs/second");
  set_latest(bench.link, bench.first, true);
  CHECK(fs::read_symlink(bench.link) == "memtune-runs/first");
}

TEST_CASE("a run that an earlier memtune left in the place of the link is kept") {
  Bench bench;
  bench.run_in(bench.link);
  bench.run_in(bench.second);
  set_latest(bench.link, bench.second, false);
  CHECK_FALSE(fs::is_symlink(bench.link));
  set_latest(bench.link, bench.second, true);
  CHECK(fs::read_symlink(bench.link) == "memtune-runs/second");
  CHECK(fs::exists(bench.folder.path / "memtune-runs/earlier-1/sweep.json"));
}

TEST_CASE("a folder or file of another program in the place of the link is refused and kept") {
  Bench bench;
  bench.run_in(bench.second);
  fs::create_directories(bench.link / "data");
  CHECK_THROWS_AS(set_latest(bench.link, bench.second, true), UsageError);
  CHECK(fs::exists(bench.link / "data"));
  fs::remove_all(bench.link);
  write_file(bench.link, "notes");
  CHECK_THROWS_AS(set_latest(bench.link, bench.second, true), UsageError);
  CHECK(read_file(bench.link) == "notes");
}

TEST_CASE("a second question takes over what the first has measured") {
  Bench bench(2);
  const SweepRecordAndReport first = bench.run_in(bench.first);
  CHECK(bench.starts() == "inspect\nnone\ncheckpoint:full\nnone again\ncheckpoint:full again\n");
  bench.settings.strategies = {"none", "checkpoint:full", "offload:stream"};
  const SweepRecordAndReport second = bench.run_in(bench.second);
  const std::string starts = bench.starts();
  CHECK(starts.find("inspect") == std::string::npos);
  CHECK(starts.find("checkpoint:full") == std::string::npos);
  CHECK(starts.find("offload:stream\n") != std::string::npos);
  REQUIRE(second.report.rows.size() == 3);
  for (size_t i = 0; i < 2; ++i) {
    const result::TrialMeasurement &a = first.report.rows[i].measurement, &b = second.report.rows[i].measurement;
    CHECK(a.step_ms.samples == b.step_ms.samples);
    CHECK(a.rounds.size() == b.rounds.size());
    CHECK(fs::exists(bench.second / b.trace));
  }
  bench.settings.reuse = EarlierTrialReusePolicy::nothing;
  bench.run_in(bench.folder.path / "memtune-runs/third");
  CHECK(bench.starts().find("checkpoint:full\n") != std::string::npos);
}

TEST_CASE("failed trials and links are not taken over") {
  Bench bench;
  bench.run_in(bench.first, "checkpoint:full=crash");
  const fs::path secret = bench.folder.path / "secret";
  write_file(secret, "secret");
  fs::remove(bench.first / "trials/1-none/log.txt");
  fs::create_symlink(secret, bench.first / "trials/1-none/log.txt");
  bench.starts();
  bench.run_in(bench.second);
  CHECK(bench.starts() == "none again\ncheckpoint:full\n");
  CHECK(fs::exists(bench.second / "trials/1-none/measurement.json"));
  CHECK_FALSE(fs::exists(fs::symlink_status(bench.second / "trials/1-none/log.txt")));
}

TEST_CASE("runs beside a folder are found without links, files and the folder itself") {
  Bench bench;
  bench.run_in(bench.first);
  fs::create_directory_symlink(bench.first, bench.folder.path / "memtune-runs/link");
  write_file(bench.folder.path / "memtune-runs/file", "");
  fs::create_directories(bench.folder.path / "memtune-runs/empty");
  CHECK(runs_beside(bench.second) == std::vector<fs::path>{bench.first});
  CHECK(runs_beside(bench.first).empty());
  CHECK(runs_beside(bench.folder.path / "nowhere/run").empty());
}

}  // namespace memtune::run_folders_test
