// The generator writes or reads until stopped, within its disk space, and reports failures to its caller.
#include "core/engine/disk/disk_load_generator.h"

#include "core/base/error.h"
#include "tests/disk/support.h"

namespace memtune::disk_load_generator_test {

using namespace memtune;
using disk::DiskLoadGenerator;

namespace {

void wait_until_moved(const DiskLoadGenerator& load, int64_t bytes) {
  while (load.moved_bytes() < bytes) std::this_thread::yield();
}

}  // namespace

TEST_CASE("the load continues within its disk space and stop returns its speed") {
  const test::Watchdog watchdog("traffic on a disk");
  for (const disk::IoBackend backend : test::backends())
    for (const int64_t room : {int64_t{20} << 20, int64_t{3} << 20, disk::kAlignment * 2}) {
      test::Stage stage(backend);
      stage.settings.budget_bytes = room;  // more would exceed the budget
      DiskLoadGenerator load(stage.settings, room, stage.disk);
      for (const auto kind :
           {DiskLoadGenerator::Kind::write, DiskLoadGenerator::Kind::read, DiskLoadGenerator::Kind::write}) {
        const auto start = std::chrono::steady_clock::now();
        load.start(kind);
        wait_until_moved(load, 5 * room);
        const double speed = load.stop();
        const std::chrono::nanoseconds most = std::chrono::steady_clock::now() - start;
        const auto moved = static_cast<double>(load.moved_bytes());
        CHECK(moved >= 5.0 * static_cast<double>(room));
        CHECK(speed >= moved / static_cast<double>(most.count()));
        CHECK(speed < 1000);
      }
    }
}

TEST_CASE("a disk failure during the load is reported by stop") {
  const test::Watchdog watchdog("traffic on a failing disk");
  for (const auto kind : {DiskLoadGenerator::Kind::write, DiskLoadGenerator::Kind::read}) {
    test::Stage stage;
    DiskLoadGenerator load(stage.settings, 40 << 20, stage.disk);
    stage.disk.arm({test::Fault::Kind::failed, EIO, 3, true});
    load.start(kind);
    while (stage.disk.calls() < 3) std::this_thread::yield();
    CHECK_THROWS_AS(load.stop(), DiskOrFileSystemError);
  }
}

TEST_CASE("the destructor stops the load") {
  const test::Watchdog watchdog("traffic that is let go");
  test::Stage stage;
  {
    DiskLoadGenerator load(stage.settings, 40 << 20, stage.disk);
    load.start(DiskLoadGenerator::Kind::write);
    wait_until_moved(load, 40 << 20);
  }
  CHECK(test::entries(stage.folder.path) == 0);
}

TEST_CASE("too small a disk budget is reported at once") {
  test::Stage stage;
  stage.settings.budget_bytes = 8 << 20;
  CHECK_THROWS_AS(DiskLoadGenerator(stage.settings, 40 << 20, stage.disk), DiskFullError);
}

}  // namespace memtune::disk_load_generator_test
