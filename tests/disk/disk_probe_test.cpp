// The probe must report plausible speeds and leave nothing behind.
#include "core/engine/disk/disk_probe.h"

#include "core/base/error.h"
#include "tests/disk/support.h"

namespace memtune::disk_probe_test {

using namespace memtune;

TEST_CASE("the probe reports the disk's speeds and its I/O backend") {
  test::ScratchFolder folder;
  for (const disk::IoBackend backend : test::backends()) {
    const disk::MeasuredDiskBandwidth speed = disk::probe_disk(folder.path, (20 << 20) + 1, true, backend);
    CHECK(speed.write_gb_per_s > 0);
    CHECK(speed.read_gb_per_s > 0);
    CHECK(speed.new_file_gb_per_s > 0);
    CHECK(speed.how.starts_with(test::name_of(backend)));
    CHECK(test::entries(folder.path) == 0);
  }
}

TEST_CASE("the probe reports a failing or unusable disk with the errors of the store") {
  CHECK_THROWS_AS(disk::probe_disk("/no/such/folder", 1 << 20), UsageError);
  const test::Watchdog watchdog("a probe of a failing disk");
  test::ScratchFolder folder;
  test::FaultyDisk disk;
  disk.arm({test::Fault::Kind::failed, EIO, 4, true});
  CHECK_THROWS_AS(disk::probe_disk(folder.path, 1 << 20, true, disk::IoBackend::automatic, disk),
                  DiskOrFileSystemError);
}

}  // namespace memtune::disk_probe_test
