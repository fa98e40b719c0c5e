// Why: disks fill up, and any call can fail. Existing states must survive, the error must be reported and unfinished
// files must go.
#include <filesystem>

#include "tests/state/support.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/run_program.h"
#include "tests/support/watchdog.h"
namespace memtune::state::state_faults_test {
namespace {

using test::Fault;

// Runs `act` once per call or transfer, with the fault at that call. Stops when the fault comes after the last call.
// After each run calls `check`, which gets whether `act` threw. Returns the number of calls.
template <class Prepare, class Act, class Check>
int spoil_each(Fault fault, const Prepare& prepare, const Act& act, const Check& check) {
  for (int at = 1;; ++at) {
    CAPTURE(at);
    test::ScratchFolder scratch;
    test::FaultyDisk disk;
    SavedStatesFolder folder(scratch.path, disk);
    prepare(folder);
    fault.at = at;
    disk.arm(fault);
    bool threw = false;
    try {
      act(folder);
    } catch (const IoError&) {
      threw = true;
    }
    const bool struck = disk.calls() >= at;
    disk.arm({});
    if (!struck) return at - 1;
    check(folder, threw);
  }
}

void save_two(SavedStatesFolder& folder) {
  test::save(folder, 2);
  test::save(folder, 4);
}

size_t things_in(const SavedStatesFolder& folder) { return test::entries(folder.root()); }

struct Case {
  const char* name;
  Fault fault;
};

// The first four cases are equivalent for calls that are no transfers: such a call fails or not.
constexpr Case kCases[] = {
    {"EIO", {Fault::Kind::refused, EIO}},
    {"ENOSPC from then on", {Fault::Kind::refused, ENOSPC, 0, true}},
    {"a transfer ends with ENOSPC", {Fault::Kind::failed, ENOSPC}},
    {"transfers end with EIO from then on", {Fault::Kind::failed, EIO, 0, true}},
    {"a transfer is cut short", {Fault::Kind::half}},
    {"transfers are cut short from then on", {Fault::Kind::half, 0, 0, true}},
    {"a transfer moves nothing", {Fault::Kind::nothing}},
    {"transfers move nothing from then on", {Fault::Kind::nothing, 0, 0, true}},
};

TEST_CASE("if any call of a save fails older states stay and the error is reported and no remains are left") {
  for (const Case& wrong : kCases) {
    CAPTURE(wrong.name);
    const test::Watchdog watchdog("a save that fails", std::chrono::seconds(120));
    int published = 0;
    const int calls = spoil_each(
        wrong.fault, save_two, [](SavedStatesFolder& folder) { test::save(folder, 6); },
        [&](SavedStatesFolder& folder, bool threw) {
          const std::vector<int64_t> steps = folder.steps();
          published += steps.size() == 3 ? 1 : 0;
          CHECK((threw || steps.size() == 3));
          for (const int64_t step : steps) CHECK(test::load(folder, step).contents == test::contents_of(step));
          CHECK(steps.size() >= 2);
          if (wrong.fault.for_ever) folder.remove_remains();  // the save could not remove it itself
          CHECK(things_in(folder) == steps.size() + 1);
          if (steps.size() == 2) {
            test::save(folder, 6);
            CHECK(test::load(folder).contents == test::contents_of(6));
          }
        });
    CHECK(calls > 30);
    CHECK(published >= 1);  // only `latest` or the removal of remains failed
    if (wrong.fault.kind == Fault::Kind::half && !wrong.fault.for_ever) CHECK(published == calls);
    if (wrong.fault.error != 0) CHECK(published < calls / 2);
  }
}

TEST_CASE("if any call of a removal fails the kept states are intact and the next removal finishes") {
  for (const bool for_ever : {false, true})
    spoil_each(
        {Fault::Kind::refused, EIO, 0, for_ever}, save_two, [](SavedStatesFolder& folder) { folder.keep_last(1); },
        [](SavedStatesFolder& folder, bool threw) {
          CHECK((threw || folder.steps().size() == 1));
          for (const int64_t step : folder.steps()) CHECK(test::load(folder, step).contents == test::contents_of(step));
          CHECK(folder.steps().back() == 4);
          folder.keep_last(1);
          folder.remove_remains();
          CHECK(things_in(folder) == 2);
        });
}

TEST_CASE("bytes that the disk changed during a save are not loaded") {
  int refused = 0;
  spoil_each(
      {Fault::Kind::flipped, 0, 0, false}, save_two, [](SavedStatesFolder& folder) { test::save(folder, 6); },
      [&](SavedStatesFolder& folder, bool /*threw*/) {
        const std::string why = test::refusal(folder, 6);
        refused += why.empty() ? 0 : 1;
        if (why.empty()) CHECK(test::load(folder, 6).contents == test::contents_of(6));
        CHECK(test::load(folder, 4).contents == test::contents_of(4));
      });
  CHECK(refused >= 4);  // header, data transfers, manifest
}

TEST_CASE("if any call of a load fails the error is reported and no wrong state is loaded") {
  int told = 0;
  for (int at = 1;; ++at) {
    test::ScratchFolder scratch;
    test::FaultyDisk disk;
    SavedStatesFolder folder(scratch.path, disk);
    save_two(folder);
    disk.arm({Fault::Kind::refused, EIO, at, false});
    std::optional<test::Loaded> loaded;
    try {
      loaded = test::load(folder);
    } catch (const Error&) {
      ++told;
    }
    if (disk.calls() < at) break;
    if (loaded) CHECK(loaded->contents == test::contents_of(4));
  }
  CHECK(told > 10);
}

TEST_CASE("a failed sync is not repeated") {
  test::ScratchFolder scratch;
  struct Counting final : disk::AsyncDirectIoFileSystem {
    int sync(int) override { return ++syncs, -EIO; }
    int syncs = 0;
  } disk;
  SavedStatesFolder folder(scratch.path, disk);
  std::filesystem::create_directories(folder.root());
  const auto specs = test::specs_of(2);
  CHECK_THROWS_AS(AtomicSavedStateWriter(folder, 2, specs), IoError);
  CHECK(disk.syncs == 2);  // of the states' folder, and of the state's folder after the removal of its remains
  CHECK(things_in(folder) == 1);
}

}  // namespace
}  // namespace memtune::state::state_faults_test
