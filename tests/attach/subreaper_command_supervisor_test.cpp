// If memtune is killed, no process of the command may keep running.
#include "core/measure/attach/subreaper_command_supervisor.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "core/measure/attach/descendants.h"
#include "tests/support/run_program.h"

namespace memtune::supervisor_test {

using namespace memtune;
using namespace std::chrono_literals;
using attach::SubreaperCommandSupervisor;

namespace {

pid_t number_in(const std::filesystem::path& file) {
  for (int tries = 0; tries < 2000; ++tries) {
    const std::string text = test::slurp(file);
    if (text.ends_with('\n')) return static_cast<pid_t>(std::stol(text));
    std::this_thread::sleep_for(5ms);
  }
  return -1;
}

// The new parent may not have reaped it yet.
bool is_zombie(pid_t pid) {
  const std::string stat = test::slurp("/proc/" + std::to_string(pid) + "/stat");
  return stat.substr(stat.rfind(')') + 1).starts_with(" Z");
}

bool ends(pid_t pid) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (::kill(pid, 0) != 0 || is_zombie(pid)) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

}  // namespace

TEST_CASE("if this process is killed the command and its detached children are killed and the folder removed") {
  const test::ScratchFolder place;
  const std::filesystem::path folder = place.path / "private";
  std::filesystem::create_directory(folder);
  const std::string script = "setsid sh -c 'echo $$ >" + place.path.string() + "/left; exec sleep 100' & echo $$ >" +
                             place.path.string() + "/own; trap '' TERM; while :; do sleep 1; done";
  const pid_t killed = ::fork();
  if (killed == 0) {
    const SubreaperCommandSupervisor supervisor({"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, STDERR_FILENO, folder);
    ::pause();
  }
  const pid_t own = number_in(place.path / "own"), left = number_in(place.path / "left");
  REQUIRE(own > 0);
  REQUIRE(left > 0);
  ::kill(killed, SIGKILL);
  ::waitpid(killed, nullptr, 0);
  CHECK(ends(own));
  CHECK(ends(left));
  for (int tries = 0; tries < 1000 && std::filesystem::exists(folder); ++tries) std::this_thread::sleep_for(5ms);
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("a command that stops the supervisor is killed with its detached children") {
  const test::ScratchFolder place;
  const std::string script = "cd " + place.path.string() +
                             "; setsid sh -c 'echo $$ >left; exec sleep 100' & "
                             "while [ ! -e go ]; do sleep 0.01; done; kill -STOP $PPID; "
                             "echo $$ >own; while :; do sleep 1; done";
  SubreaperCommandSupervisor supervisor({"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, STDERR_FILENO,
                                        place.path / "private");
  std::ofstream(place.path / "go").close();
  const pid_t own = number_in(place.path / "own"), left = number_in(place.path / "left");
  REQUIRE(own > 0);
  REQUIRE(left > 0);
  const auto start = std::chrono::steady_clock::now();
  supervisor.end();
  CHECK(std::chrono::steady_clock::now() - start < 5s);
  CHECK(ends(own));
  CHECK(ends(left));
}

TEST_CASE("a command that kills the supervisor leaves no process behind and does not end this one") {
  const test::ScratchFolder place;
  const std::string script = "cd " + place.path.string() +
                             "; setsid sh -c 'echo $$ >left; exec sleep 100' & "
                             "while [ ! -e go ]; do sleep 0.01; done; kill -KILL $PPID; exec sleep 100";
  const pid_t other = ::fork();  // of this process, and none of the command's
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  SubreaperCommandSupervisor supervisor({"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, STDERR_FILENO,
                                        place.path / "private");
  const pid_t left = number_in(place.path / "left");
  REQUIRE(left > 0);
  std::ofstream(place.path / "go").close();
  for (int tries = 0; tries < 1000 && !supervisor.status(); ++tries) std::this_thread::sleep_for(5ms);
  CHECK(supervisor.status() == SIGKILL);
  supervisor.terminate();
  supervisor.end();
  CHECK(::kill(left, 0) != 0);
  CHECK(::kill(other, 0) == 0);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST_CASE("a command that stops the supervisor at once is still started and killed") {
  for (int i = 0; i < 30; ++i) {  // sometimes before the supervisor could report the start
    const test::ScratchFolder place;
    SubreaperCommandSupervisor supervisor(
        {"sh", "-c", "kill -STOP $PPID; echo $$ >" + place.path.string() + "/own; exec sleep 100"},
        {"PATH=/usr/bin:/bin"}, STDERR_FILENO, place.path / "private");
    const pid_t own = number_in(place.path / "own");
    REQUIRE(own > 0);
    supervisor.end();
    CHECK(ends(own));
  }
}

TEST_CASE("a process name with a line break or a parenthesis does not hide a descendant") {
  for (const char* name : {"a\nb", "a) S 1 (b", "\n", ")"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_NAME, name);
      ::pause();
      ::_exit(0);
    }
    const std::string comm = "/proc/" + std::to_string(child) + "/comm";
    for (int tries = 0; tries < 1000 && test::slurp(comm) != std::string(name) + "\n"; ++tries)
      std::this_thread::sleep_for(5ms);
    CHECK(attach::descendants() == std::vector<pid_t>{child});
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST_CASE("descendants include orphans and exclude this process") {
  CHECK(attach::descendants().empty());
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  CHECK(attach::descendants() == std::vector<pid_t>{child});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(attach::descendants().empty());
}

}  // namespace memtune::supervisor_test
