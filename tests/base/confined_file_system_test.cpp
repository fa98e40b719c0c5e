// A run folder may come from an untrusted archive. Its links and pipes must neither do harm nor block.
#include "core/base/confined_file_system.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <functional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/support/run_program.h"

namespace memtune::confined_file_system_test {

using namespace memtune;
namespace fs = std::filesystem;

namespace {

struct Bench {
  test::ScratchFolder outside, inside;
  ConfinedFileSystem folder{inside.path};
  fs::path mine = outside.path / "mine";
  Bench() { write_file(mine, "precious"); }
  ~Bench() { CHECK(read_file(mine) == "precious"); }
};

// Blocks openat2 for this process, permanently, as on an older kernel.
bool forget_openat2(unsigned error) {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(code), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Tests `claims` in a process without openat2. Returns the number of the first false one, counted from 1, or 0.
int first_wrong_without_openat2(unsigned error, const std::vector<std::function<bool()>>& claims) {
  const pid_t child = ::fork();
  if (child == 0) {
    int wrong = forget_openat2(error) ? 0 : 100;
    for (size_t i = 0; i < claims.size() && wrong == 0; ++i)
      if (!claims[i]()) wrong = static_cast<int>(i) + 1;
    ::_exit(wrong);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("reads and writes never follow a link inside the folder") {
  Bench bench;
  fs::create_symlink(bench.mine, bench.inside.path / "link");
  fs::create_symlink(bench.outside.path, bench.inside.path / "folder");
  for (const char* name : {"link", "folder/mine"}) {
    const fs::path path = bench.inside.path / name;
    CHECK_THROWS_AS(read_file(path, bench.folder), IoError);
    CHECK_THROWS_AS(write_file(path, "x", bench.folder), IoError);
    CHECK_THROWS_AS(append_file(path, "x", bench.folder), IoError);
    CHECK_THROWS_AS(cut_file(path, 0, bench.folder), IoError);
    CHECK_THROWS_AS(FileLock(path, bench.folder), IoError);
  }
  CHECK_THROWS_AS(make_folders(bench.inside.path / "folder/new", bench.folder), IoError);
  CHECK(test::entries(bench.outside.path) == 1);
}

TEST_CASE("with O_NOFOLLOW no part of a path may be a link") {
  Bench bench;
  fs::create_symlink(bench.outside.path, bench.inside.path / "folder");
  fs::create_directory(bench.inside.path / "a");
  write_file(bench.inside.path / "a/b", "x");
  FileSystem system;
  const fs::path root = fs::canonical(bench.inside.path);
  CHECK(system.open(root / "folder/mine", O_RDONLY | O_NOFOLLOW, 0) == -ELOOP);
  CHECK(FileDescriptor(system.open(root / "a/b", O_RDONLY | O_NOFOLLOW, 0)).get() >= 0);
}

TEST_CASE("links are rejected even if the kernel or a sandbox blocks openat2") {
  Bench bench;
  fs::create_symlink(bench.mine, bench.inside.path / "link");
  fs::create_symlink(bench.outside.path, bench.inside.path / "folder");
  fs::create_directory(bench.inside.path / "a");
  write_file(bench.inside.path / "a/b", "x");
  const fs::path root = fs::canonical(bench.inside.path);
  const auto opened = [&](const char* name, int flags) {
    return FileDescriptor(FileSystem().open(root / name, flags | O_NOFOLLOW, 0600)).get();
  };
  for (const unsigned error : {ENOSYS, EPERM}) {
    CAPTURE(error);
    CHECK(first_wrong_without_openat2(
              error, {[] {
                        struct open_how how {};
                        return ::syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how) < 0;
                      },
                      [&] { return opened("a/b", O_RDONLY) >= 0; }, [&] { return opened("link", O_RDONLY) == -ELOOP; },
                      [&] { return opened("link", O_WRONLY | O_CREAT | O_TRUNC) == -ELOOP; },
                      [&] { return opened("folder/mine", O_RDONLY) == -ELOOP; },
                      [&] { return opened("folder/new", O_WRONLY | O_CREAT) == -ELOOP; },
                      [&] { return opened("folder", O_RDONLY | O_DIRECTORY) < 0; },
                      [&] { return opened("a/b/c", O_RDONLY) < 0; }}) == 0);
  }
  CHECK(test::entries(bench.outside.path) == 1);
}

TEST_CASE("paths outside the folder are rejected") {
  Bench bench;
  for (const fs::path& path : {bench.mine, bench.inside.path / "a/../../x", fs::path("/etc/passwd")})
    CHECK(bench.folder.open(path, O_RDONLY, 0) == -EXDEV);
  CHECK(bench.folder.unlink(bench.mine) == -EXDEV);
  CHECK(bench.folder.rename(bench.mine, bench.inside.path / "x") == -EXDEV);
}

TEST_CASE("opening a pipe does not block and devices are not read") {
  Bench bench;
  const fs::path pipe = bench.inside.path / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(bench.folder.open(pipe, O_RDONLY, 0) == -ESPIPE);
  CHECK(bench.folder.open(pipe, O_WRONLY, 0) == -ESPIPE);
  CHECK_THROWS_WITH_AS(read_file(pipe, bench.folder),
                       ("cannot read '" + pipe.string() + "': it is a pipe; a regular file is needed").c_str(),
                       IoError);
  ConfinedFileSystem devices("/dev");
  CHECK(devices.open("/dev/zero", O_RDONLY, 0) == -ESPIPE);
}

TEST_CASE("the folder itself may be a link and its files work as usual") {
  Bench bench;
  const fs::path link = bench.outside.path / "run";
  fs::create_symlink(bench.inside.path, link);
  ConfinedFileSystem folder(link);
  make_folders(link / "a/b", folder);
  make_folders(link / "a/b", folder);
  write_file(link / "a/b/file", "old", folder);
  write_file(link / "a/b/file", "new", folder);
  append_file(link / "a/b/file", "er", folder);
  CHECK(read_file(bench.inside.path / "a/b/file") == "newer");
  CHECK(test::entries(bench.inside.path / "a/b") == 1);
}

TEST_CASE("an opened file is in blocking mode") {
  const Bench bench;
  ConfinedFileSystem folder(bench.inside.path);
  write_file(bench.inside.path / "file", "x");
  const FileDescriptor file(folder.open(bench.inside.path / "file", O_RDWR, 0));
  REQUIRE(file.get() >= 0);
  CHECK((::fcntl(file.get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK((::fcntl(file.get(), F_GETFL) & O_ACCMODE) == O_RDWR);
}

TEST_CASE("a file beyond the size limit and an endless one are rejected") {
  CHECK_THROWS_AS(read_file("/dev/zero", system_files(), 1 << 20), IoError);
  Bench bench;
  CHECK(read_file(bench.mine, system_files(), 8) == "precious");
  CHECK_THROWS_AS(read_file(bench.mine, system_files(), 7), IoError);
}

TEST_CASE("a foreign file named lock is left unchanged") {
  Bench bench;
  for (const std::string text : {"my lock\n", "12 34", "0123456789012345678901234567890123"}) {
    write_file(bench.inside.path / "lock", text);
    CHECK_THROWS_AS(FileLock(bench.inside.path / "lock", bench.folder), UsageError);
    CHECK(read_file(bench.inside.path / "lock") == text);
  }
}

}  // namespace memtune::confined_file_system_test
