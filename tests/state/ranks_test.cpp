// Why: a state of several ranks is complete or does not exist. If a rank fails, dies or is late, the files of the
// others must never count as a state. The previous state must stay.
#include <sys/stat.h>

#include <fstream>
#include <future>

#include "core/base/vocabulary.h"
#include "core/engine/state/rank_parts.h"
#include "core/engine/state/state_saver.h"
#include "tests/state/support.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/queue_device.h"
#include "tests/support/run_program.h"
#include "tests/support/watchdog.h"
namespace memtune::state::state_ranks_test {
namespace {

namespace fs = std::filesystem;
using safetensors::Dtype;
using std::chrono::milliseconds;

constexpr int64_t kRow = 10'001;  // of a tensor that all ranks share

// The data of one rank: its part of a row, and a tensor of its own.
struct Rank {
  int rank, ranks;
  SavedStatesFolder folder;
  std::vector<safetensors::TensorNameDtypeAndShape> specs;
  ShardExtents parts;
  test::Contents contents;

  Rank(const fs::path& run, int rank, int ranks, milliseconds timeout = milliseconds(20'000),
       disk::AsyncDirectIoFileSystem& disk = disk::system_disk())
      : rank(rank), ranks(ranks), folder(run, disk) {
    folder.set_rank({rank, ranks, timeout});
    const int64_t begin = kRow * rank / ranks, end = kRow * (rank + 1) / ranks;
    specs = {{"own" + std::to_string(rank), Dtype::u8, {3}}, {"row", Dtype::u8, {end - begin}}};
    parts["row"] = {{kRow}, {}, begin};
    contents = {{specs[0].name, "abc"},
                {"row", row().substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin))}};
    folder.make();
  }

  std::vector<TensorToSave> state() const {
    std::vector<TensorToSave> state;
    for (const safetensors::TensorNameDtypeAndShape& spec : specs) {
      TensorToSave part;
      part.spec = spec;
      part.data = contents.at(spec.name).data();
      part.memory = part.data;
      part.on_device = true;
      if (const auto extent = parts.find(spec.name); extent != parts.end()) part.part = extent->second;
      state.push_back(part);
    }
    return state;
  }

  static std::string row() {
    std::string row;
    for (int64_t i = 0; i < kRow; ++i) row += static_cast<char>(i * i + i / 256);
    return row;
  }

  void save(int64_t step) {
    test::StateImage image(specs, contents);
    AtomicSavedStateWriter writer(folder, step, specs, parts);
    image.write(writer, disk::kAlignment);
    writer.publish();
  }
};

void save_on_all(const fs::path& run, int ranks, int64_t step) {
  std::vector<std::future<void>> saves;
  for (int rank = 0; rank < ranks; ++rank)
    saves.push_back(std::async(std::launch::async, [=] { Rank(run, rank, ranks).save(step); }));
  for (auto& save : saves) save.get();
}

// The row, joined from its parts.
std::string row_of(const fs::path& run) {
  std::string row(static_cast<size_t>(kRow), '\0');
  load(SavedStatesFolder(run), {}, {{}, [&](const ManifestTensorEntry& tensor, std::span<const char> bytes) {
                                      if (tensor.part)
                                        row.replace(static_cast<size_t>(tensor.part->begin), bytes.size(), bytes.data(),
                                                    bytes.size());
                                    }});
  return row;
}

std::string said(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

TEST_CASE("a save on several ranks gives one state and leaves nothing else") {
  const test::Watchdog watchdog("ranks that save");
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    const test::ScratchFolder run;
    for (const int64_t step : {1, 2}) save_on_all(run.path, ranks, step);
    const SavedStatesFolder folder(run.path);
    CHECK(folder.steps() == std::vector<int64_t>{1, 2});
    CHECK(row_of(run.path) == Rank::row());
    CHECK(test::entries(folder.path(2)) == static_cast<size_t>(ranks) + 1);
    std::vector<std::string> files;
    load(folder, {},
         {[&](const StateManifest& manifest) {
            for (const ManifestFileEntry& file : manifest.files) files.push_back(file.name);
          },
          {}});
    REQUIRE(files.size() == static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) CHECK(files[static_cast<size_t>(rank)] == data_file(rank));
  }
}

TEST_CASE("a state lacks a rank's part and rank 0 names the missing rank after the timeout and removes the rest") {
  const test::ScratchFolder run;
  save_on_all(run.path, 3, 1);
  Rank(run.path, 2, 3).save(2);
  CHECK(SavedStatesFolder(run.path).steps() == std::vector<int64_t>{1});  // not yet published
  const std::string why = said([&] { Rank(run.path, 0, 3, milliseconds(30)).save(2); });
  CHECK(why == "rank 1 did not save its part of step 2 within 30 ms");
  CHECK(SavedStatesFolder(run.path).steps() == std::vector<int64_t>{1});
  CHECK_FALSE(fs::exists(SavedStatesFolder(run.path).path(2)));
  CHECK(row_of(run.path) == Rank::row());
}

TEST_CASE("a rank that fails ends the wait of rank 0 with its reason if that could be written") {
  for (const bool room : {true, false}) {
    CAPTURE(room);
    const test::Watchdog watchdog("a rank that fails");
    const test::ScratchFolder run;
    Rank first(run.path, 0, 2), second(run.path, 1, 2);
    fs::create_directories(first.folder.path(5));
    if (room) publish_failure(second.folder, 5, "no \xFF disk");
    if (!room) std::ofstream(first.folder.path(5) / part_file(1));
    const std::string why = said([&] { first.save(5); });
    CHECK(why.find(room ? "rank 1: no " : "rank 1 could not save its part") == 0);
    CHECK(first.folder.steps().empty());
    CHECK_FALSE(fs::exists(first.folder.path(5)));
  }
}

TEST_CASE("a full disk on one rank fails its save and that of rank 0 with the reason in every save mode") {
  const test::Watchdog watchdog("savers of two ranks");
  for (const std::string& how : kSaveModes) {
    CAPTURE(how);
    const test::ScratchFolder run;
    test::FaultyDisk full;
    std::vector<std::vector<result::SingleStateSaveRecord>> ended(2);
    const auto rank = [&](int number) {
      tests::QueueDevice device(tests::QueueDevice::Compute::caller, nullptr);
      Rank of(run.path, number, 2, milliseconds(20'000), number == 1 ? full : disk::system_disk());
      const auto note = [&](const result::SingleStateSaveRecord& save) {
        ended[static_cast<size_t>(number)].push_back(save);
      };
      StateSaver saver(device, of.folder, {how, 1, false}, note);
      const std::vector<TensorToSave> parts = of.state();
      saver.prepare(bytes_of(parts), INT64_MAX);
      for (const int64_t step : {1, 2, 3}) {
        if (number == 1) full.on_status = [=](struct statfs& status) { status.f_bavail = step == 2 ? 1 : 1 << 20; };
        saver.save(step, parts);
        saver.look(true);
      }
    };
    auto second = std::async(std::launch::async, rank, 1);
    rank(0);
    second.get();
    for (const auto& saves : ended) {
      REQUIRE(saves.size() == 3);
      CHECK(saves[0].error == "");
      CHECK(saves[2].error == "");
    }
    CHECK(ended[1][1].error.find("(4 KiB free)") != std::string::npos);
    CHECK(ended[0][1].error == "rank 1: " + ended[1][1].error);
    CHECK(SavedStatesFolder(run.path).steps() == std::vector<int64_t>{3});  // rank 0 keeps only the last state
    CHECK(row_of(run.path) == Rank::row());
    CHECK(test::entries(SavedStatesFolder(run.path).root()) == 2);
  }
}

TEST_CASE("foreign parts and parts of another step are not accepted") {
  const auto said_of = [](const std::string& text) {
    const test::ScratchFolder run;
    Rank first(run.path, 0, 2);
    fs::create_directories(first.folder.path(5));
    std::ofstream(first.folder.path(5) / part_file(1)) << text;
    return said([&] { first.save(5); });
  };
  CHECK(said_of("{}").find("the part of rank 1 is none") == 0);
  CHECK(said_of("[").find("the part of rank 1 is none") == 0);
  CHECK(said_of(print({4, {}, {{data_file(1), 1, ""}}, {}})).find("it is another's") != std::string::npos);
  CHECK(said_of(print({5, {}, {{data_file(0), 1, ""}}, {}})).find("it is another's") != std::string::npos);
}

TEST_CASE("a part is announced only after its data is synced") {
  class NoSync final : public disk::AsyncDirectIoFileSystem {
   public:
    int sync(int file) override {
      struct stat about = {};
      return ::fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size >= disk::kAlignment
                 ? -EIO
                 : AsyncDirectIoFileSystem::sync(file);
    }
  } disk;
  const test::ScratchFolder run;
  Rank first(run.path, 0, 2, milliseconds(30)), second(run.path, 1, 2, milliseconds(0), disk);
  CHECK(said([&] { second.save(1); }).find("Input/output error") != std::string::npos);
  CHECK_FALSE(fs::exists(first.folder.path(1) / part_file(1)));
  CHECK(said([&] { first.save(1); }).find("rank 1 did not save its part") == 0);
}

TEST_CASE("a rank may be ahead of rank 0 and only its unfinished older parts are removed") {
  const test::ScratchFolder run;
  Rank first(run.path, 0, 2), second(run.path, 1, 2);
  second.save(1);  // rank 0 never saves this step
  second.save(3);
  second.save(4);
  first.save(3);
  CHECK(first.folder.steps() == std::vector<int64_t>{3});
  CHECK_FALSE(fs::exists(first.folder.path(1)));
  first.save(4);
  CHECK(first.folder.steps() == std::vector<int64_t>{3, 4});
  CHECK(said([&] { second.save(4); }).find("cannot make the folder") == 0);  // it exists
  second.save(9);
  CHECK(test::entries(first.folder.path(9)) == 2);
  first.folder.remove_remains();
  CHECK_FALSE(fs::exists(first.folder.path(9)));
}

TEST_CASE("parts that leave a hole in a tensor are no state even if all files are intact") {
  const test::ScratchFolder run;
  Rank first(run.path, 0, 2), second(run.path, 1, 2);
  second.parts["row"].begin -= 1;
  second.save(1);
  CHECK_THROWS_WITH(
      first.save(1),
      "the ranks' parts do not form a state: its manifest has 'row' in parts that leave a hole or overlap");
  CHECK(first.folder.steps().empty());
}

}  // namespace
}  // namespace memtune::state::state_ranks_test
