// The sandbox is the last line of defense against a model. Its limits are permanent, so each test runs in a child
// process.
#include "core/measure/trial/sandbox.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>

#include "core/base/file.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"

namespace memtune::sandbox_test {

using namespace memtune;
namespace fs = std::filesystem;

namespace {

// Returns the result of `holds`, called in a child process.
bool in_child(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool has_landlock() {
  return in_child([] { return trial::restrict_writes_to({}); });
}

bool can_write(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)).get() >= 0;
}

}  // namespace

TEST_CASE("a confined process writes only to its folders and reads everywhere") {
  if (!has_landlock()) MEMTUNE_SKIP("this kernel has no Landlock");
  const test::ScratchFolder mine, other;
  write_file(other.path / "file", "precious");
  CHECK(in_child([&] {
    if (!trial::restrict_writes_to({mine.path})) return false;
    std::error_code error;
    const bool removed = fs::remove(other.path / "file", error);
    fs::create_symlink(other.path / "file", mine.path / "link", error);
    return can_write(mine.path / "a") && fs::create_directory(mine.path / "b") && can_write(mine.path / "b/c") &&
           fs::remove(mine.path / "a") && !can_write(other.path / "file") && !can_write(other.path / "new") &&
           !removed && !can_write(mine.path / "link") && can_write("/dev/null") &&
           read_file(other.path / "file") == "precious";
  }));
  CHECK(read_file(other.path / "file") == "precious");
}

// CUDA finds no device if it cannot name its threads.
TEST_CASE("a confined process can name its own threads but not those of other processes") {
  if (!has_landlock()) MEMTUNE_SKIP("this kernel has no Landlock");
  const auto comm = [](const fs::path& process) { return "/proc" / process / "comm"; };
  const std::string parent = std::to_string(::getpid());
  CHECK(in_child([&] {
    if (!trial::restrict_writes_to({})) return false;
    bool named = can_write(comm("self"));
    std::thread([&] { named &= can_write("/proc/self/task" / fs::path(std::to_string(::gettid())) / "comm"); }).join();
    return named && !can_write(comm(parent));
  }));
}

TEST_CASE("a writer whose pipe loses its reader is killed at once") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::close(ends[0]);
    trial::exit_when_reader_closes(ends[1]);
    while (true) ::pause();
  }
  ::close(ends[1]);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(::waitpid(child, nullptr, WNOHANG) == 0);
  ::close(ends[0]);
  int status = 0;
  for (int i = 0; i < 200 && ::waitpid(child, &status, WNOHANG) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(WIFSIGNALED(status));
}

}  // namespace memtune::sandbox_test
