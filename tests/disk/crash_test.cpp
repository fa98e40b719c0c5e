// A killed process must leave neither a file nor used disk space. Activations are large, and no other process cleans
// up.
#include <signal.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/disk/support.h"
#include "tests/support/skip.h"

namespace memtune::disk_crash_test {

using namespace memtune;
using namespace std::chrono_literals;

namespace {

constexpr int64_t kReserved = int64_t{1} << 30;

int64_t free_bytes(const std::filesystem::path& folder) {
  struct statvfs info {};
  REQUIRE(::statvfs(folder.c_str(), &info) == 0);
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

// A child process that reserves space, signals it, and writes until it is killed.
pid_t start_writer(const disk::ScratchBlockStoreSettings& settings, disk::AsyncDirectIoFileSystem& system) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    disk::ScratchBlockStore store(settings, system);
    store.reserve(kReserved);
    test::AlignedMemory data(8 << 20);
    std::vector<disk::ScratchFileBlockHandle> blocks;
    for (int i = 0;; ++i) {
      if (blocks.size() == 16) blocks.clear();
      blocks.push_back(store.allocate(8 << 20));
      const auto request = store.write(blocks.back(), data.data());
      if (i % 4 == 0) request->wait();
      if (i == 8 && ::write(ready[1], "x", 1) != 1) ::_exit(1);
    }
  }
  ::close(ready[1]);
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  return child;
}

void check_nothing_is_left(test::Stage& stage) {
  const int64_t before = free_bytes(stage.folder.path);
  if (before < 2 * kReserved) {
    MEMTUNE_SKIP("too little free disk");
  }
  const pid_t child = start_writer(stage.settings, stage.disk);
  CHECK(test::entries(stage.folder.path) == 0);
  CHECK(free_bytes(stage.folder.path) < before - kReserved / 2);
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(test::entries(stage.folder.path) == 0);
  // The kernel frees io_uring rings after the process has ended. Other processes use the disk meanwhile, so half of the
  // space is enough.
  for (int i = 0; i < 500 && free_bytes(stage.folder.path) < before - kReserved / 2; ++i)
    std::this_thread::sleep_for(10ms);
  CHECK(free_bytes(stage.folder.path) >= before - kReserved / 2);
}

}  // namespace

TEST_CASE("after kill -9 during writes the folder is empty and the disk space is free again") {
  for (const disk::IoBackend backend : test::backends()) {
    CAPTURE(test::name_of(backend));
    test::Stage stage(backend);
    check_nothing_is_left(stage);
  }
  // The same if files need a name. This is no separate case, because two cases at once would see each other's disk
  // space.
  test::Stage stage;
  stage.disk.on_open = [](int flags) { return test::unnamed(flags) ? -EOPNOTSUPP : 0; };
  check_nothing_is_left(stage);
}

}  // namespace memtune::disk_crash_test
