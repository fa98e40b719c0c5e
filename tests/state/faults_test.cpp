// Why: disks fill up and fail at any call. The states that are there must survive that, the error must be told, and
// nothing may stay of what was not finished.
#include <filesystem>

#include "tests/state/support.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/run_program.h"
#include "tests/support/watchdog.h"

namespace memtune::state {
namespace {

using test::Fault;

// Runs `act` with the first, second, third ... call or transfer gone wrong until none is struck; `check` after each,
// told whether it threw. Returns how many were.
template <class Prepare, class Act, class Check>
int spoil_each(Fault fault, const Prepare& prepare, const Act& act, const Check& check) {
  for (int at = 1;; ++at) {
    CAPTURE(at);
    test::ScratchFolder scratch;
    test::FaultyDisk disk;
    StateFolder folder(scratch.path, disk);
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

void save_two(StateFolder& folder) {
  test::save(folder, 2);
  test::save(folder, 4);
}

size_t things_in(const StateFolder& folder) { return test::entries(folder.root()); }

struct Case {
  const char* name;
  Fault fault;
};

// Of calls that are no transfers the first four are one: they work or do not.
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

TEST_CASE("whichever call or transfer of a save fails, the older states are intact, it is told, and nothing is left") {
  for (const Case& wrong : kCases) {
    CAPTURE(wrong.name);
    const test::Watchdog watchdog("a save that fails", std::chrono::seconds(120));
    int published = 0;
    const int calls = spoil_each(
        wrong.fault, save_two, [](StateFolder& folder) { test::save(folder, 6); },
        [&](StateFolder& folder, bool threw) {
          const std::vector<int64_t> steps = folder.steps();
          published += steps.size() == 3 ? 1 : 0;
          CHECK((threw || steps.size() == 3));
          for (const int64_t step : steps) CHECK(test::load(folder, step).contents == test::contents_of(step));
          CHECK(steps.size() >= 2);
          if (wrong.fault.for_ever) folder.remove_remains();  // it could not take it away itself
          CHECK(things_in(folder) == steps.size() + 1);
          if (steps.size() == 2) {
            test::save(folder, 6);
            CHECK(test::load(folder).contents == test::contents_of(6));
          }
        });
    CHECK(calls > 30);
    CHECK(published >= 1);  // where only `latest` failed, or the removal of remains did not matter
    if (wrong.fault.kind == Fault::Kind::half && !wrong.fault.for_ever) CHECK(published == calls);
    if (wrong.fault.error != 0) CHECK(published < calls / 2);
  }
}

TEST_CASE("whichever call of a removal is refused, the states that stay are intact and the next one finishes it") {
  for (const bool for_ever : {false, true})
    spoil_each(
        {Fault::Kind::refused, EIO, 0, for_ever}, save_two, [](StateFolder& folder) { folder.keep_last(1); },
        [](StateFolder& folder, bool threw) {
          CHECK((threw || folder.steps().size() == 1));
          for (const int64_t step : folder.steps()) CHECK(test::load(folder, step).contents == test::contents_of(step));
          CHECK(folder.steps().back() == 4);
          folder.keep_last(1);
          folder.remove_remains();
          CHECK(things_in(folder) == 2);
        });
}

TEST_CASE("whatever the disk changes of what it is given, is not loaded") {
  int refused = 0;
  spoil_each(
      {Fault::Kind::flipped, 0, 0, false}, save_two, [](StateFolder& folder) { test::save(folder, 6); },
      [&](StateFolder& folder, bool /*threw*/) {
        const std::string why = test::refusal(folder, 6);
        refused += why.empty() ? 0 : 1;
        if (why.empty()) CHECK(test::load(folder, 6).contents == test::contents_of(6));
        CHECK(test::load(folder, 4).contents == test::contents_of(4));
      });
  CHECK(refused >= 4);  // header, transfers of the data, manifest
}

TEST_CASE("whichever call of a load is refused, it is told and nothing else is loaded") {
  int told = 0;
  for (int at = 1;; ++at) {
    test::ScratchFolder scratch;
    test::FaultyDisk disk;
    StateFolder folder(scratch.path, disk);
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

TEST_CASE("a sync that failed is not tried again") {
  test::ScratchFolder scratch;
  struct Counting final : disk::AsyncFileSystem {
    int sync(int) override { return ++syncs, -EIO; }
    int syncs = 0;
  } disk;
  StateFolder folder(scratch.path, disk);
  std::filesystem::create_directories(folder.root());
  const auto specs = test::specs_of(2);
  CHECK_THROWS_AS(StateWriter(folder, 2, specs), IoError);
  CHECK(disk.syncs == 2);  // of the states' folder; of that of the state, once its remains are taken away
  CHECK(things_in(folder) == 1);
}

}  // namespace
}  // namespace memtune::state
