// The file may be the user's only copy. It must appear under its name complete or not at all. A full disk must show
// before the first write.
#include "core/engine/disk/atomic_output_file.h"

#include <sys/stat.h>

#include <cstring>

#include "core/base/confined_file_system.h"
#include "core/base/error.h"
#include "core/engine/disk/request_queue.h"
#include "tests/disk/support.h"
#include "tests/support/skip.h"

namespace memtune::atomic_output_file_test {

using namespace memtune;
using namespace memtune::disk;
using test::Fault;

namespace {

constexpr int64_t kBytes = 5 * kAlignment + 17;

struct Fixture {
  test::ScratchFolder folder;
  test::FaultyDisk disk;
  std::filesystem::path path = folder.path / "file";
  AtomicOutputFile open() { return AtomicOutputFile(path, kBytes, disk, disk); }
};

struct stat info_of(int file) {
  struct stat info {};
  REQUIRE(::fstat(file, &info) == 0);
  return info;
}

std::string how(const AtomicOutputFile& file) { return file.describe(*file.start_io(1, IoBackend::threads)); }

// Writes page by page with one backend.
void fill(const AtomicOutputFile& file, test::AlignedMemory& data, IoBackend backend) {
  FirstIoFailureLatch failure;
  RequestQueue queue(file, file.start_io(2, backend), 2, failure);
  const auto request = std::make_shared<DiskTransferCompletionHandle>(6);
  for (int64_t offset = 0; offset < kBytes; offset += kAlignment) {
    RequestQueue::Job job;
    job.transfer = {IoSubmission::Kind::write, offset, data.data() + offset, kAlignment};
    job.request = request;
    queue.push(std::move(job));
  }
  request->wait();
}

}  // namespace

TEST_CASE("a new file gets its name when it is complete with its size and the bytes of every transfer") {
  test::AlignedMemory data(kBytes);
  test::fill(data.data(), kBytes, 5);
  for (const IoBackend backend : test::backends())
    for (const bool direct : {true, false}) {
      CAPTURE(direct);
      Fixture fixture;
      if (!direct) fixture.disk.on_alignment = [] { return 0; };
      ConfinedFileSystem own(fixture.folder.path, fixture.disk);  // as for saved states
      AtomicOutputFile file(fixture.path, kBytes, own, fixture.disk);
      CHECK_FALSE(std::filesystem::exists(fixture.path));
      fill(file, data, backend);
      file.finish(kBytes);
      CHECK(test::slurp(fixture.path) == std::string(data.data(), kBytes));
      CHECK(test::entries(fixture.folder.path) == 1);
    }
}

TEST_CASE("a new file that is not finished leaves nothing") {
  Fixture fixture;
  {
    const AtomicOutputFile file = fixture.open();
    CHECK(test::entries(fixture.folder.path) == 1);
  }
  CHECK(test::entries(fixture.folder.path) == 0);
}

TEST_CASE("disk space for a new file is preallocated if the file system supports it") {
  Fixture fixture;
  CHECK(info_of(fixture.open().descriptor()).st_blocks * 512 >= kBytes);
  fixture.disk.on_allocate = [](int64_t) { return std::optional(-EOPNOTSUPP); };
  CHECK(info_of(fixture.open().descriptor()).st_size == round_up(kBytes));
}

TEST_CASE("a new file uses the page cache if direct I/O is not possible") {
  for (const int64_t alignment : {0, 65536, 3000}) {
    Fixture fixture;
    fixture.disk.on_alignment = [alignment] { return alignment; };
    CHECK(how(fixture.open()) == "threads, through the page cache");
  }
  Fixture refused;
  refused.disk.arm({Fault::Kind::refused, EINVAL, 2});
  CHECK(how(refused.open()) == "threads, through the page cache");
}

TEST_CASE("a new file that does not fit is rejected before any write with its size and the free space") {
  Fixture fixture;
  const auto free = [&](int64_t blocks) {
    fixture.disk.on_status = [blocks](struct statfs& status) {
      status.f_bsize = 4096;
      status.f_blocks = 1000;
      status.f_bavail = static_cast<decltype(status.f_bavail)>(blocks);
    };
  };
  free(5);
  fixture.disk.on_allocate = [](int64_t) {
    FAIL_CHECK("the disk was touched");
    return std::nullopt;
  };
  CHECK_THROWS_WITH_AS(fixture.open(),
                       ("cannot write '" + fixture.path.string() +
                        "': growing it to 24 KiB: No space left on device (20 KiB free); free some, or choose another "
                        "disk")
                           .c_str(),
                       DiskFullError);
  CHECK(test::entries(fixture.folder.path) == 0);
  fixture.disk.on_allocate = nullptr;
  free(6);
  CHECK_NOTHROW(fixture.open());
  fixture.disk.on_status = [](struct statfs& status) { status.f_blocks = status.f_bavail = 0; };  // unknown
  CHECK_NOTHROW(fixture.open());
}

TEST_CASE("errors of a new file name it") {
  Fixture fixture;
  const AtomicOutputFile file = fixture.open();
  const auto said = [&](int error) {
    try {
      std::rethrow_exception(file.failure_of(error, {IoSubmission::Kind::write, 8192, nullptr, 4096}));
    } catch (const DiskFullError& full) {
      return std::string("full: ") + full.what();
    } catch (const IoError& io) {
      return std::string(io.what());
    }
  };
  CHECK(said(EIO) == "cannot write '" + fixture.path.string() + "': writing 4 KiB at offset 8192: Input/output error");
  CHECK(said(ENOSPC).starts_with("full: cannot write '"));
  CHECK(said(EDQUOT).starts_with("full: "));
  CHECK(said(EFBIG).starts_with("full: "));
}

}  // namespace memtune::atomic_output_file_test
