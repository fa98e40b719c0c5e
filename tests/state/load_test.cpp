// Why: training continues from a wrong state without any sign of error. Every changed byte must be rejected, with the
// reason and the state to use instead.
#include <fstream>

#include "tests/state/support.h"
#include "tests/support/run_program.h"
#include "tests/support/samples.h"
namespace memtune::state::state_load_test {
namespace {

namespace fs = std::filesystem;

struct Run {
  test::ScratchFolder scratch;
  SavedStatesFolder folder{scratch.path};
  Run() {
    test::save(folder, 2);
    test::save(folder, 4);
  }
  fs::path data(int64_t step) const { return folder.path(step) / kDataFile; }
  fs::path manifest(int64_t step) const { return folder.path(step) / kManifest; }
  std::string refusal(std::optional<int64_t> step = std::nullopt) const { return test::refusal(folder, step); }
};

void put(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("load returns the newest state or the requested one") {
  const Run run;
  CHECK(run.folder.steps() == std::vector<int64_t>{2, 4});
  CHECK(test::load(run.folder).step == 4);
  CHECK(test::load(run.folder).contents == test::contents_of(4));
  CHECK(test::load(run.folder, 2).contents == test::contents_of(2));
  CHECK(test::slurp(run.folder.root() / kLatest) == "step-00000004\n");
  CHECK(contains(run.refusal(3), "there is no saved state of step 3"));
  CHECK(contains(run.refusal(3), "there are those of 2, 4"));
  const test::ScratchFolder empty;
  CHECK(contains(test::refusal(SavedStatesFolder(empty.path)), "there is no saved state in"));
}

TEST_CASE("any changed byte is detected and the last good state is named") {
  const Run run;
  std::mt19937_64 random(11);
  for (const fs::path& file : {run.data(4), run.manifest(4)}) {
    const std::string whole = test::slurp(file);
    for (size_t i = 0; i < whole.size(); ++i) {
      if (!tests::is_sampled(static_cast<int64_t>(i))) continue;
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << random() % 8));
      put(file, flipped);
      const std::string why = run.refusal();
      CAPTURE(i);
      // White space in the manifest may change.
      if (why.empty()) REQUIRE(test::load(run.folder).contents == test::contents_of(4));
      if (file == run.data(4) || !why.empty()) REQUIRE(contains(why, "cannot be used"));
      if (!why.empty()) REQUIRE(contains(why, "the newest that is whole is of step 2"));
    }
    put(file, whole);
  }
  CHECK(run.refusal() == "");
}

TEST_CASE("a file that is truncated anywhere or too long is rejected") {
  const Run run;
  for (const fs::path& file : {run.data(4), run.manifest(4)}) {
    const std::string whole = test::slurp(file);
    for (size_t cut = 0; cut + 1 < whole.size(); ++cut) {
      if (!tests::is_sampled(static_cast<int64_t>(cut))) continue;
      put(file, whole.substr(0, cut));
      REQUIRE(contains(run.refusal(), "the newest that is whole is of step 2"));
    }
    put(file, whole + "x");
    CHECK(run.refusal() != "");
    put(file, whole);
  }
}

TEST_CASE("links and foreign files and files of another step or a later memtune are rejected") {
  const auto said_of = [](const auto& change) {
    Run run;
    change(run);
    return run.refusal();
  };
  CHECK(contains(said_of([](Run& run) {
                   fs::rename(run.folder.path(4), run.scratch.path / "elsewhere");
                   fs::create_directory_symlink(run.scratch.path / "elsewhere", run.folder.path(4));
                 }),
                 "symbolic link"));
  CHECK(contains(said_of([](Run& run) {
                   fs::rename(run.data(4), run.scratch.path / "elsewhere");
                   fs::create_symlink(run.scratch.path / "elsewhere", run.data(4));
                 }),
                 "symbolic link"));
  CHECK(contains(said_of([](Run& run) { fs::rename(run.folder.path(4), run.folder.path(5)); }),
                 "its manifest is of step 4"));
  CHECK(contains(said_of([](Run& run) { put(run.manifest(4), "{}"); }), "none of memtune's"));
  CHECK(contains(said_of([](Run& run) { put(run.manifest(4), "[1"); }), "none of memtune's"));
  CHECK(contains(said_of([](Run& run) { put(run.manifest(4), R"({"format": 3})"); }), "format 3, of a later memtune"));
  CHECK(contains(said_of([](Run& run) { fs::remove(run.data(4)); }), "No such file"));
  CHECK(
      contains(said_of([](Run& run) { fs::copy_file(run.data(2), run.data(4), fs::copy_options::overwrite_existing); }),
               "bytes, not"));
}

TEST_CASE("files that memtune did not write are never removed") {
  Run run;
  put(run.folder.path(2) / "notes.txt", "mine");
  put(run.folder.root() / "mine", "mine");
  const fs::path aside = run.folder.path(6);
  fs::create_directory(aside);
  put(aside / (std::string(kDataFile) + ".tmp.1.2"), "half");
  put(aside / "model.safetensors", "mine");
  fs::create_directory_symlink(run.folder.path(4), run.folder.path(8));
  run.folder.remove(2);
  run.folder.remove_remains();
  CHECK(fs::exists(run.folder.path(2) / "notes.txt"));
  CHECK(test::entries(run.folder.path(2)) == 1);
  CHECK(fs::exists(run.folder.root() / "mine"));
  CHECK(test::entries(aside) == 1);
  CHECK(fs::exists(run.data(4)));
  CHECK_THROWS_AS(run.folder.remove(8), IoError);
  CHECK(fs::exists(run.data(4)));
}

TEST_CASE("keep_last keeps the newest states and 0 keeps all") {
  test::ScratchFolder scratch;
  SavedStatesFolder folder(scratch.path);
  for (const int64_t step : {1, 2, 3, 100'000'000}) test::save(folder, step);
  folder.keep_last(0);
  CHECK(folder.steps() == std::vector<int64_t>{1, 2, 3, 100'000'000});
  folder.keep_last(2);
  CHECK(folder.steps() == std::vector<int64_t>{3, 100'000'000});
  CHECK(test::entries(folder.root()) == 3);
}

}  // namespace
}  // namespace memtune::state::state_load_test
