// A run folder may come from an untrusted source, and other programs may keep files in it. memtune leaves their files
// unchanged and does not trust modified ones of its own.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "tests/support/samples.h"
#include "tests/sweep/sweep_bench.h"

namespace memtune::run_folder_test {

using namespace memtune;
using namespace memtune::sweep;
using memtune::result::TrialOutcome;
namespace fs = std::filesystem;

namespace {

struct Bench : test::SweepBench {
  fs::path run_path = folder.path / "run", mine = folder.path / "mine";
  Bench() : SweepBench({"none", "checkpoint:full"}) { write_file(mine, "precious"); }
  ~Bench() { CHECK(read_file(mine) == "precious"); }
};

std::string journal_line(const std::string& record) { return hash_hex(record).substr(0, 16) + " " + record + "\n"; }

// Returns the id of a process that has ended.
std::string dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return std::to_string(child);
}

}  // namespace

TEST_CASE("links in a run folder are refused and their targets stay unchanged") {
  for (const char* name : {"lock", "journal.jsonl", "sweep.json", "inspect", "trials"}) {
    CAPTURE(name);
    Bench bench;
    const bool is_folder = std::string(name) == "inspect" || std::string(name) == "trials";
    const fs::path elsewhere = bench.folder.path / "elsewhere";
    fs::create_directories(elsewhere);
    fs::create_directories(bench.run_path);
    fs::create_symlink(is_folder ? elsewhere : bench.mine, bench.run_path / name);
    CHECK_THROWS_AS(bench.run(), Error);
    CHECK(fs::is_empty(elsewhere));
  }
}

TEST_CASE("a link in the place of a log or a plan is not written through") {
  Bench bench;
  bench.run();
  const fs::path trial = bench.run_path / "trials/1-none";
  for (const char* name : {"log.txt", "plan.json"}) {
    CAPTURE(name);
    fs::remove(trial / name);
    fs::create_symlink(bench.mine, trial / name);
    bench.settings.reuse = EarlierTrialReusePolicy::nothing;
    if (std::string(name) == "log.txt") CHECK_NOTHROW(bench.run());
    if (std::string(name) == "plan.json") CHECK_THROWS_AS(bench.run(), IoError);
  }
}

TEST_CASE("files of other programs with the names of sweep files are refused and stay unchanged") {
  for (const char* name : {"sweep.json", "journal.jsonl", "lock"}) {
    CAPTURE(name);
    Bench bench;
    fs::create_directories(bench.run_path);
    write_file(bench.run_path / name, "method: bayes\n");
    CHECK_THROWS_AS(bench.run(), UsageError);
    CHECK(read_file(bench.run_path / name) == "method: bayes\n");
  }
}

TEST_CASE("a named pipe in the place of a file ends the sweep instead of blocking it") {
  for (const char* name : {"sweep.json", "journal.jsonl"}) {
    Bench bench;
    fs::create_directories(bench.run_path);
    REQUIRE(::mkfifo((bench.run_path / name).c_str(), 0600) == 0);
    CHECK_THROWS_AS(bench.run(), Error);
  }
}

TEST_CASE("the folder of a trial in the journal must be below trials/") {
  Bench bench;
  const SweepRecordAndReport first = bench.run();
  const fs::path outside = bench.folder.path / "outside";
  fs::create_directories(outside);
  for (const char* file : {"measurement.json", "trace.mttrace", "plan.json"}) write_file(outside / file, "mine");
  for (const char* name : {"../outside", "trials/../../outside", "trials/..", "trials/a/b", "/tmp", "trials/"}) {
    const nlohmann::json record = {
        {"event", "start"}, {"key", first.record.trials[0].key}, {"folder", name}, {"strategy", "none"}};
    append_file(bench.run_path / "journal.jsonl", journal_line(record.dump()));
    CHECK_FALSE(is_trial_folder(name));
  }
  bench.settings.reuse = EarlierTrialReusePolicy::nothing;
  CHECK(bench.run().record.trials[0].folder == "trials/1-none");
  for (const char* file : {"measurement.json", "trace.mttrace", "plan.json"})
    CHECK(read_file(outside / file) == "mine");
}

TEST_CASE("the folder of a trial in sweep.json must be below trials/") {
  Bench bench;
  bench.run();
  nlohmann::json record = nlohmann::json::parse(read_file(bench.run_path / "sweep.json"));
  record["trials"][0]["folder"] = "../outside";
  write_file(bench.run_path / "sweep.json", record.dump());
  CHECK_THROWS_AS(RunDirectory(bench.run_path).read_record(), UsageError);
}

TEST_CASE("foreign files in a folder that a dry run created are kept") {
  Bench bench;
  bench.settings.dry_run = true;
  struct Guest : SweepListener {
    fs::path run;
    void planned(const std::vector<SweepTrialEntry>&, size_t, size_t) override {
      write_file(run / "notes.txt", "mine");
      write_file(run / "inspect/notes.txt", "mine");
    }
  } guest;
  guest.run = bench.run_path;
  run_sweep(bench.settings, guest);
  CHECK(read_file(bench.run_path / "notes.txt") == "mine");
  CHECK(read_file(bench.run_path / "inspect/notes.txt") == "mine");
  CHECK(test::entries(bench.run_path) == 2);
  CHECK(test::entries(bench.run_path / "inspect") == 1);
}

TEST_CASE("a changed digit in a measurement is detected and the trial runs again") {
  Bench bench;
  bench.run();
  bench.starts();
  const fs::path path = bench.run_path / "trials/2-checkpoint-full/measurement.json";
  std::string text = read_file(path);
  const size_t digit = text.find("125");
  REQUIRE(digit != std::string::npos);
  text[digit + 2] = '6';
  write_file(path, text);
  CHECK_FALSE(RunDirectory(bench.run_path).read_measurement("trials/2-checkpoint-full"));
  CHECK(bench.run().report.rows.size() == 2);
  CHECK(bench.starts() == "none again\ncheckpoint:full\n");
}

TEST_CASE("temporary files of dead processes are removed and all other files are kept") {
  Bench bench;
  bench.run();
  const std::string dead = dead_process();
  const fs::path trial = bench.run_path / "trials/1-none";
  const std::vector<fs::path> stale = {
      trial / ("trace.mttrace.tmp." + dead), trial / ("measurement.json.tmp." + dead + ".3"),
      bench.run_path / ("reference-0123abcd.bin.tmp." + dead), bench.run_path / ("sweep.json.tmp." + dead + ".0")};
  const std::vector<fs::path> others = {bench.run_path / ("thesis.tex.tmp." + dead), trial / "trace.mttrace.tmp.x",
                                        trial / ("trace.mttrace.tmp." + std::to_string(::getppid())),
                                        trial / ("plan.json.tmp." + dead + ".bak")};
  for (const auto& files : {stale, others})
    for (const fs::path& path : files) write_file(path, "half");
  bench.run();
  for (const fs::path& path : stale) CHECK_FALSE(fs::exists(path));
  for (const fs::path& path : others) CHECK(fs::exists(path));
}

TEST_CASE("trials with a transient failure run again and other failed trials do not") {
  Bench bench;
  CHECK(bench.run("checkpoint:full=killed").report.rows[1].measurement.outcome != TrialOutcome::ok);
  bench.starts();
  CHECK(bench.run("checkpoint:full=disk_full").report.rows[1].measurement.outcome == TrialOutcome::disk_full);
  CHECK(bench.starts() == "none again\ncheckpoint:full\n");
  CHECK(bench.run("checkpoint:full=crash").report.rows[1].measurement.outcome == TrialOutcome::crash);
  CHECK(bench.starts() == "none again\ncheckpoint:full\n");
  bench.run();
  CHECK(bench.starts() == "");
}

TEST_CASE("the name of a trial folder may contain any number") {
  Bench bench;
  for (const char* name : {"2147483647-x", "999999999999999999999-x", "-5-x", "007-x"})
    fs::create_directories(bench.run_path / "trials" / name);
  write_file(bench.run_path / "lock", "");
  SweepTrialEntry spec;
  spec.strategy = "none";
  CHECK(RunDirectory(bench.run_path).new_folder(spec) == "trials/8-none");
}

TEST_CASE("after any failed write a sweep reports the error or works and the next sweep works") {
  struct Failing : FileSystem {
    int left = 0;
    bool struck = false;
    int strike() { return --left == 0 ? (struck = true, -ENOSPC) : 0; }
    int open(const fs::path& path, int flags, unsigned mode) override {
      const int refusal = strike();
      return refusal < 0 ? refusal : FileSystem::open(path, flags, mode);
    }
    int64_t write(int file, const char* data, int64_t bytes) override {
      const int refusal = strike();
      return refusal < 0 ? refusal : FileSystem::write(file, data, bytes);
    }
    int sync(int file) override {
      const int refusal = strike();
      return refusal < 0 ? refusal : FileSystem::sync(file);
    }
    int rename(const fs::path& from, const fs::path& to) override {
      const int refusal = strike();
      return refusal < 0 ? refusal : FileSystem::rename(from, to);
    }
    int make_folder(const fs::path& path) override {
      const int refusal = strike();
      return refusal < 0 ? refusal : FileSystem::make_folder(path);
    }
    int unlink(const fs::path& path) override {
      const int refusal = strike();
      return refusal < 0 ? refusal : FileSystem::unlink(path);
    }
  };
  Bench bench;
  bool struck = true;
  int tried = 0;
  for (int at = 1; struck; at += static_cast<int>(tests::sample_stride()), ++tried) {
    CAPTURE(at);
    Failing files;
    files.left = at;
    bench.settings.files = &files;
    try {
      bench.run();
    } catch (const IoError& error) {
      CAPTURE(std::string(error.what()));
      CHECK(std::string(error.what()).find("No space left on device") != std::string::npos);
    }
    struck = files.struck;
    bench.settings.files = nullptr;
    REQUIRE(bench.run().report.rows.size() == 2);
    for (const result::TrialResultRow& row : bench.run().report.rows) {
      CAPTURE(row.measurement.reason);
      CHECK(row.measurement.outcome == TrialOutcome::ok);
    }
    fs::remove_all(bench.run_path);
  }
  CHECK(tried > tests::samples(60));
}

TEST_CASE("a run folder that cannot be created is reported with the reason and leaves no folder") {
  struct Refusing : FileSystem {
    int make_folder(const fs::path&) override { return -EROFS; }
  } files;
  Bench bench;
  bench.settings.directory = bench.run_path / "deep";
  bench.settings.files = &files;
  const std::string reason = "cannot make the folder '" + bench.run_path.string() + "': Read-only file system";
  CHECK_THROWS_WITH_AS(bench.run(), reason.c_str(), IoError);
  CHECK_FALSE(fs::exists(bench.run_path));
  CHECK(bench.starts() == "");
}

TEST_CASE("a damaged reference that cannot be removed ends the sweep before any trial reads it") {
  struct Keeping : FileSystem {
    int unlink(const fs::path& path) override {
      return path.filename().string().starts_with("reference-") && path.extension() == ".bin"
                 ? -EACCES
                 : FileSystem::unlink(path);
    }
  } files;
  Bench bench;
  bench.run();
  const fs::path reference = bench.reference();
  fs::resize_file(reference, fs::file_size(reference) - 1);
  bench.starts();
  bench.settings.files = &files;
  const std::string reason = "cannot remove '" + reference.string() + "': Permission denied";
  CHECK_THROWS_WITH_AS(bench.run(), reason.c_str(), IoError);
  CHECK(bench.starts() == "");
  bench.settings.files = nullptr;
  bench.run();
  CHECK(bench.starts() == "none\n");
}

TEST_CASE("a folder that a dry run created is removed if the system allows it") {
  struct Keeping : FileSystem {
    std::vector<fs::path> asked;
    int remove_folder(const fs::path& path) override { return asked.push_back(path), -EBUSY; }
  } files;
  Bench bench;
  bench.settings.dry_run = true;
  bench.settings.directory = bench.run_path / "deep/";
  bench.run();
  CHECK_FALSE(fs::exists(bench.settings.directory));
  bench.settings.files = &files;
  CHECK_NOTHROW(bench.run());
  CHECK(fs::exists(bench.settings.directory));
  CHECK(files.asked.size() == 3);  // the inspection's, inspect, the run's
}

}  // namespace memtune::run_folder_test
