// Why: a power loss leaves any subset of the unsynced changes. A real disk cannot be tested for that. This test records
// every change of a run's saves and derives thousands of possible disk states. No disk state may load wrong data or
// lose a state that was reported as saved.
#include <cstdlib>

#include "core/base/file.h"
#include "tests/state/memory_disk.h"
#include "tests/state/support.h"
#include "tests/support/samples.h"
namespace memtune::state::state_crash_test {
namespace {

constexpr const char* kRun = "/memory/run";

// After this many changes, a state of at least this step must exist.
struct Promise {
  size_t changes = 0;
  int64_t step = -1;
};

// A run that saves, keeps the last states, returns to an earlier state and continues from there.
struct Life {
  test::MemoryDisk empty{kRun}, disk{kRun};
  std::vector<Promise> promises{{0, -1}};

  explicit Life(int ranks) {
    SavedStatesFolder folder(kRun, disk);
    const auto save = [&](int64_t step, int life) {
      ranks == 1 ? test::save(folder, step, life) : test::save_on_two_ranks(folder, step, life);
    };
    for (const int64_t step : {2, 4, 6, 8}) {
      save(step, 0);
      promise(step);
      folder.keep_last(3);
    }
    promise(4);
    folder.remove(8);
    folder.remove(6);
    for (const int64_t step : {6, 8, 10}) {
      save(step, 1);
      promise(step);
      folder.keep_last(2);
    }
  }
  void promise(int64_t step) { promises.push_back({disk.changes().size(), step}); }
  int64_t promised(size_t changes) const {
    int64_t step = -1;
    for (const Promise& promise : promises)
      if (promise.changes <= changes) step = promise.step;
    return step;
  }
};

// The fault in what a power loss left, "" if none.
std::string fault_of(test::MemoryDisk& left, int64_t promised, int ranks) {
  const SavedStatesFolder folder(kRun, left);
  try {
    const test::Loaded loaded = test::load(folder);
    if (loaded.step < promised) return "a state that was said to be saved is gone";
    for (const int life : {0, 1}) {
      test::Contents saved = test::contents_of(loaded.step, life);
      if (ranks == 2) saved["row"] = std::string(test::kRowBytes, static_cast<char>(loaded.step * 16 + life));
      if (loaded.contents == saved) return "";
    }
    return "wrong data";
  } catch (const DamagedSavedStateError& error) {
    return error.what();
  } catch (const UsageError& error) {
    return promised < 0 ? "" : error.what();
  }
}

// Continues after the power loss: a save must work and leave no remains.
std::string fault_of_going_on(test::MemoryDisk& left) {
  SavedStatesFolder folder(kRun, left);
  test::save(folder, 100);
  if (test::load(folder).contents != test::contents_of(100)) return "the next state is not what was saved";
  const std::vector<std::string> names = names_in(folder.root(), left);
  return names.size() == folder.steps().size() + 1 ? "" : "something was left behind";
}

int64_t states_to_try(int usual) {
  const char* asked = std::getenv("MEMTUNE_CRASH_STATES");
  return asked ? std::strtoll(asked, nullptr, 10) : tests::samples(usual);
}

void check_power_losses(int ranks, int usual) {
  const Life life(ranks);
  const size_t changes = life.disk.changes().size();
  std::mt19937_64 random(7);
  for (int64_t i = 0; i < states_to_try(usual); ++i) {
    const size_t count = random() % (changes + 1);
    test::MemoryDisk left(life.empty, life.disk, count, random);
    std::string fault = fault_of(left, life.promised(count), ranks);
    if (fault.empty() && i % 16 == 0) fault = fault_of_going_on(left);
    CAPTURE(count);
    REQUIRE(fault == "");
  }
}

TEST_CASE("after any power loss the newest state loads as written and no saved state is lost") {
  check_power_losses(1, 50'000);
}

TEST_CASE("after any power loss a state of two ranks loads as written and none is lost") {
  check_power_losses(2, 20'000);
}

}  // namespace
}  // namespace memtune::state::state_crash_test
