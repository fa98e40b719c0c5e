// The scratch file must be invisible, must not be in memory by mistake, and must detect a full disk before a step
// begins.
#include "core/engine/disk/scratch_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"
#include "tests/disk/support.h"
#include "tests/support/skip.h"

namespace memtune::scratch_file_test {

using namespace memtune;
using namespace memtune::disk;

namespace {

struct Fixture {
  test::ScratchFolder folder;
  test::FaultyDisk disk;
  ScratchFile open(bool allow_memory = true) { return ScratchFile(disk, folder.path, allow_memory); }
  std::string text() const { return "'" + folder.path.string() + "'"; }
};

std::string how(const ScratchFile& file) { return file.describe(*file.start_io(1, IoBackend::threads)); }

}  // namespace

TEST_CASE("the scratch file has no name and is private to its owner and closed on exec") {
  Fixture fixture;
  const ScratchFile file = fixture.open();
  CHECK(test::entries(fixture.folder.path) == 0);
  struct stat info {};
  REQUIRE(::fstat(file.descriptor(), &info) == 0);
  CHECK(info.st_nlink == 0);
  CHECK((info.st_mode & 07777) == 0600);
  CHECK((::fcntl(file.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(how(file).ends_with(", unnamed"));
}

TEST_CASE("without O_TMPFILE the file is unlinked before anything is written") {
  for (const int error : {EOPNOTSUPP, EISDIR, EINVAL}) {
    CAPTURE(error);
    Fixture fixture;
    fixture.disk.on_open = [error](int flags) { return test::unnamed(flags) ? -error : 0; };
    const ScratchFile file = fixture.open();
    CHECK(test::entries(fixture.folder.path) == 0);
    struct stat info {};
    REQUIRE(::fstat(file.descriptor(), &info) == 0);
    CHECK(info.st_nlink == 0);
    CHECK((info.st_mode & 07777) == 0600);
    CHECK(how(file).ends_with(", unlinked"));
  }
}

TEST_CASE("a name that cannot be removed is an error with that name") {
  Fixture fixture;
  fixture.disk.on_open = [](int flags) { return test::unnamed(flags) ? -EOPNOTSUPP : 0; };
  fixture.disk.arm({test::Fault::Kind::refused, EIO, 2});
  CHECK_THROWS_WITH_AS(fixture.open(), doctest::Contains("removing its name .memtune-scratch-"), DiskOrFileSystemError);
}

TEST_CASE("the page cache is used if direct I/O is refused or unsupported or too coarse") {
  Fixture refused;
  refused.disk.on_open = [](int flags) { return test::direct(flags) ? -EINVAL : 0; };
  CHECK(how(refused.open()) == "threads, through the page cache, unnamed");
  for (const int64_t alignment : {0, 65536, 3000}) {
    CAPTURE(alignment);
    Fixture fixture;
    fixture.disk.on_alignment = [alignment] { return alignment; };
    const ScratchFile file = fixture.open();
    CHECK_FALSE(file.direct());
    CHECK((::fcntl(file.descriptor(), F_GETFL) & O_DIRECT) == 0);
  }
}

TEST_CASE("an unknown alignment requirement counts as met") {
  Fixture fixture;
  fixture.disk.on_alignment = [] { return -ENOSYS; };
  const ScratchFile file = fixture.open();
  CHECK(file.direct() == ((::fcntl(file.descriptor(), F_GETFL) & O_DIRECT) != 0));
}

TEST_CASE("the scratch file works without O_TMPFILE and without direct I/O") {
  Fixture fixture;
  fixture.disk.on_open = [](int flags) { return test::unnamed(flags) || test::direct(flags) ? -EINVAL : 0; };
  CHECK(how(fixture.open()) == "threads, through the page cache, unlinked");
  CHECK(test::entries(fixture.folder.path) == 0);
}

TEST_CASE("a scratch directory that cannot be used is a usage error") {
  test::FaultyDisk disk;
  CHECK_THROWS_WITH_AS(ScratchFile(disk, "/no/such/folder", true),
                       "cannot write into the scratch directory '/no/such/folder': No such file or directory; name a "
                       "directory on a local disk with --scratch",
                       UsageError);
  test::ScratchFolder folder;
  const auto file = folder.path / "file";
  ::close(::open(file.c_str(), O_CREAT | O_WRONLY, 0600));
  CHECK_THROWS_AS(ScratchFile(disk, file, true), UsageError);
  for (const int error : {EACCES, EROFS, EPERM}) {
    disk.on_open = [error](int) { return -error; };
    CHECK_THROWS_AS(ScratchFile(disk, folder.path, true), UsageError);
  }
  disk.on_open = [](int) { return -EMFILE; };
  CHECK_THROWS_AS(ScratchFile(disk, folder.path, true), DiskOrFileSystemError);
  disk.on_open = [](int) { return -EDQUOT; };
  CHECK_THROWS_AS(ScratchFile(disk, folder.path, true), DiskFullError);
}

TEST_CASE("a directory in memory is rejected with its name and the flag that allows it") {
  for (const int64_t magic : {int64_t{TMPFS_MAGIC}, int64_t{RAMFS_MAGIC}}) {
    Fixture fixture;
    fixture.disk.on_status = [magic](struct statfs& status) {
      status.f_type = static_cast<decltype(status.f_type)>(magic);
    };
    CHECK_THROWS_WITH_AS(fixture.open(false),
                         doctest::Contains(("the scratch directory " + fixture.text() + " is in memory").c_str()),
                         UsageError);
    CHECK_THROWS_WITH_AS(fixture.open(false), doctest::Contains("--scratch-in-memory"), UsageError);
    CHECK_NOTHROW(fixture.open(true));
  }
}

TEST_CASE("a real tmpfs is rejected and works if allowed") {
  struct statfs status {};
  if (::statfs("/dev/shm", &status) != 0 || status.f_type != TMPFS_MAGIC || ::access("/dev/shm", W_OK) != 0) {
    MEMTUNE_SKIP("/dev/shm is no writable tmpfs");
  }
  CHECK_THROWS_AS(ScratchFile(system_disk(), "/dev/shm", false), UsageError);
  ScratchFile file(system_disk(), "/dev/shm", true);
  file.grow(1 << 20);
  CHECK(file.bytes() == 1 << 20);
}

TEST_CASE("the upper folder of an overlay is found by the mount's device") {
  const std::string mounts =
      "24 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "31 24 0:45 / /merged rw - overlay overlay rw,lowerdir=/lower,upperdir=/dev/shm/up,workdir=/dev/shm/work\n"
      "32 24 0:46 / /other rw - overlay none rw,lowerdir=/lower,upperdir=/var/up\n";
  CHECK(upper_folder(mounts, "0:45") == "/dev/shm/up");
  CHECK(upper_folder(mounts, "0:46") == "/var/up");
  CHECK(upper_folder(mounts, "254:0") == "");
  CHECK(upper_folder(mounts, "0:4") == "");
  CHECK(upper_folder("", "0:45") == "");
}

TEST_CASE("growing allocates the disk space at once") {
  Fixture fixture;
  ScratchFile file = fixture.open();
  file.grow(1 << 20);
  file.grow(3 << 20);
  file.grow(2 << 20);  // smaller: no effect
  struct stat info {};
  REQUIRE(::fstat(file.descriptor(), &info) == 0);
  CHECK(file.bytes() == 3 << 20);
  CHECK(info.st_size == 3 << 20);
  CHECK(info.st_blocks * 512 >= 3 << 20);
}

TEST_CASE("a size that does not fit is rejected before any allocation with the free space and the remedy") {
  Fixture fixture;
  ScratchFile file = fixture.open();
  fixture.disk.on_status = [](struct statfs& status) {
    status.f_bsize = 4096;
    status.f_bavail = 1024;
  };
  fixture.disk.on_allocate = [](int64_t) {
    FAIL_CHECK("the disk was touched");
    return std::nullopt;
  };
  CHECK_THROWS_WITH_AS(file.grow(int64_t{40} << 30),
                       ("the scratch file in " + fixture.text() +
                        ": growing it to 40 GiB: No space left on device (4 MiB free); free some, name a larger disk "
                        "with --scratch, or lower --disk-budget")
                           .c_str(),
                       DiskFullError);
  CHECK_THROWS_AS(file.grow(4 << 20), DiskFullError);  // the whole disk: some space must stay free
  fixture.disk.on_allocate = nullptr;
  CHECK_NOTHROW(file.grow(3 << 20));
}

TEST_CASE("a failed allocation frees the space it took") {
  Fixture fixture;
  ScratchFile file = fixture.open();
  file.grow(1 << 20);
  fixture.disk.on_allocate = [&](int64_t bytes) {
    REQUIRE(::fallocate(file.descriptor(), 0, 1 << 20, bytes / 2) == 0);
    return std::optional(-ENOSPC);
  };
  CHECK_THROWS_AS(file.grow(5 << 20), DiskFullError);
  struct stat info {};
  REQUIRE(::fstat(file.descriptor(), &info) == 0);
  CHECK(file.bytes() == 1 << 20);
  CHECK(info.st_size == 1 << 20);
  CHECK(info.st_blocks * 512 < 2 << 20);
}

TEST_CASE("a file system without preallocation is supported") {
  Fixture fixture;
  fixture.disk.on_allocate = [](int64_t) { return std::optional(-EOPNOTSUPP); };
  ScratchFile file = fixture.open();
  file.grow(1 << 20);
  CHECK(file.bytes() == 1 << 20);
}

}  // namespace memtune::scratch_file_test
