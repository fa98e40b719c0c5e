// Both I/O backends must behave alike: several transfers at a time, each returns its bytes or -errno.
#include "core/engine/disk/async_file_io.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <set>

#include "core/base/error.h"
#include "tests/disk/support.h"
#include "tests/support/skip.h"

namespace memtune::async_file_io_test {

using namespace memtune;
using namespace memtune::disk;
using test::AlignedMemory;

namespace {

constexpr int64_t kPage = kAlignment;

struct Open {
  Open() : file(::open(folder.path.c_str(), O_TMPFILE | O_RDWR, 0600)) { REQUIRE(file >= 0); }
  ~Open() { ::close(file); }
  std::unique_ptr<AsyncFileIo> start(IoBackend backend) const { return system_disk().start_io(file, 4, backend); }
  test::ScratchFolder folder;
  int file;
};

int64_t run(AsyncFileIo& io, IoSubmission::Kind kind, int64_t offset, char* data, int64_t bytes) {
  REQUIRE(io.submit({kind, offset, data, bytes}, 7) == 0);
  const IoCompletion completion = io.reap();
  CHECK(completion.tag == 7);
  return completion.result;
}

// Blocks io_uring for this process and its children, as container runtimes do.
void forbid_uring() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(99);
}

}  // namespace

TEST_CASE("written bytes are read back") {
  for (const IoBackend backend : test::backends()) {
    CAPTURE(test::name_of(backend));
    const Open open;
    const auto io = open.start(backend);
    CHECK(io->name() == test::name_of(backend));
    AlignedMemory out(3 * kPage), in(3 * kPage);
    test::fill(out.data(), 3 * kPage, 1);
    CHECK(run(*io, IoSubmission::Kind::write, kPage, out.data(), 3 * kPage) == 3 * kPage);
    CHECK(run(*io, IoSubmission::Kind::read, kPage, in.data(), 3 * kPage) == 3 * kPage);
    CHECK(std::memcmp(in.data(), out.data(), 3 * kPage) == 0);
  }
}

TEST_CASE("concurrent transfers keep their tags") {
  for (const IoBackend backend : test::backends()) {
    CAPTURE(test::name_of(backend));
    const Open open;
    const auto io = open.start(backend);
    AlignedMemory data(4 * kPage);
    for (size_t tag = 0; tag < 4; ++tag) {
      const auto offset = static_cast<int64_t>(tag) * kPage;
      REQUIRE(io->submit({IoSubmission::Kind::write, offset, data.data() + offset, kPage}, tag) == 0);
    }
    std::set<size_t> tags;
    for (int i = 0; i < 4; ++i) tags.insert(io->reap().tag);
    CHECK(tags == std::set<size_t>{0, 1, 2, 3});
  }
}

TEST_CASE("a read across the end of the file is short and one after the end returns 0") {
  for (const IoBackend backend : test::backends()) {
    CAPTURE(test::name_of(backend));
    const Open open;
    const auto io = open.start(backend);
    AlignedMemory data(2 * kPage);
    REQUIRE(run(*io, IoSubmission::Kind::write, 0, data.data(), kPage) == kPage);
    CHECK(run(*io, IoSubmission::Kind::read, 0, data.data(), 2 * kPage) == kPage);
    CHECK(run(*io, IoSubmission::Kind::read, kPage, data.data(), kPage) == 0);
  }
}

TEST_CASE("a failed system call returns its errno") {
  for (const IoBackend backend : test::backends()) {
    CAPTURE(test::name_of(backend));
    const Open open;
    AlignedMemory data(kPage);
    const auto io = system_disk().start_io(-1, 4, backend);
    CHECK(run(*io, IoSubmission::Kind::read, 0, data.data(), kPage) == -EBADF);
  }
}

TEST_CASE("registered memory moves the same bytes within it and across its end") {
  for (const IoBackend backend : test::backends()) {
    CAPTURE(test::name_of(backend));
    const Open open;
    const auto io = open.start(backend);
    AlignedMemory out(4 * kPage), in(4 * kPage);
    test::fill(out.data(), 4 * kPage, 2);
    io->pin(out.data(), 2 * kPage);
    io->pin(in.data(), 2 * kPage);
    for (const int64_t begin : {0, 1, 2}) {
      CAPTURE(begin);
      std::memset(in.data(), 0, 4 * kPage);
      CHECK(run(*io, IoSubmission::Kind::write, 0, out.data() + begin * kPage, 2 * kPage) == 2 * kPage);
      CHECK(run(*io, IoSubmission::Kind::read, 0, in.data() + begin * kPage, 2 * kPage) == 2 * kPage);
      CHECK(std::memcmp(in.data() + begin * kPage, out.data() + begin * kPage, 2 * kPage) == 0);
    }
  }
}

TEST_CASE("threads replace a blocked io_uring and an explicit request for io_uring is an error") {
  const pid_t child = ::fork();
  if (child == 0) {
    forbid_uring();
    test::Stage stage;
    if (!stage.open().description().starts_with("threads")) _exit(1);
    AlignedMemory out(kPage), in(kPage);
    test::fill(out.data(), kPage, 3);
    const ScratchFileBlockHandle block = stage.store->allocate(kPage);
    stage.store->write(block, out.data());
    stage.store->read(block, in.data())->wait();
    if (std::memcmp(in.data(), out.data(), kPage) != 0) _exit(2);
    try {
      stage.settings.backend = IoBackend::uring;
      stage.open();
    } catch (const DiskOrFileSystemError&) {
      stage.store.reset();
      std::filesystem::remove_all(stage.folder.path);
      _exit(0);
    }
    _exit(3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  if (WEXITSTATUS(status) == 99) MEMTUNE_SKIP("seccomp is refused here: no fall back to threads to be seen");
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace memtune::async_file_io_test
