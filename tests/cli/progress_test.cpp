// The progress output of a sweep, to a log and to a terminal.
#include "cli/progress.h"

#include <doctest/doctest.h>
#include <pty.h>

#include <functional>

#include "tests/cli/paper_run.h"

namespace memtune::progress_test {

using memtune::test::Ended;
using memtune::test::PaperRun;
using memtune::test::Variable;
using memtune::test::Workspace;

namespace {

// The output of a process that runs `act` on a terminal of 100 columns.
std::string on_terminal(const std::function<void()>& act) {
  int terminal = -1;
  winsize size{24, 100, 0, 0};
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) act(), _exit(127);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(terminal, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(terminal);
  waitpid(child, nullptr, 0);
  return text;
}

std::string on_terminal(const std::string& line) {
  return on_terminal([&] { execl("/bin/sh", "sh", "-c", line.c_str(), nullptr); });
}

}  // namespace

TEST_CASE("a log gets one line per ended trial with figures or the reason of failure") {
  const Workspace place;
  const Ended ended = place.memtune("sweep --model tiny --sweep quick --rounds 1", "checkpoint:full=device_oom");
  CHECK(
      ended.err.starts_with("[1/3] none  100.0 ms, 32 GiB\n"
                            "[2/3] checkpoint:full  device_oom: asked for 2 GiB, 1 GiB free\n"
                            "[3/3] offload:stream  110.0 ms, 12 GiB\n"));
  CHECK(ended.err.find('\r') == std::string::npos);
}

TEST_CASE("progress lines of several batch sizes name the batch") {
  const Workspace place;
  const Ended ended = place.memtune("sweep --model tiny --strategy none --batch 1,2 --rounds 1");
  CHECK(ended.err.starts_with("[1/2] none, batch 1  100.0 ms, 32 GiB\n[2/2] none, batch 2  200.0 ms, 32 GiB\n"));
}

TEST_CASE("a terminal keeps lines of ended trials above the line that is redrawn") {
  const Workspace place;
  const Variable color("NO_COLOR", "1");
  const std::string line = place.shell_line("sweep --model tiny --sweep quick --rounds 1");
  const std::string seen = on_terminal(line.substr(0, line.rfind(" >out")) + " >out");
  const size_t first = seen.find("\r\x1b[K[1/3] none  100.0 ms, 32 GiB\r\n");
  REQUIRE(first != std::string::npos);
  CHECK(seen.find("[2/3] checkpoint:full  ", first) < seen.find("[2/3] checkpoint:full  125.0 ms, 8 GiB\r\n"));
  CHECK(seen.find("[3/3] offload:stream  110.0 ms, 12 GiB\r\n") != std::string::npos);
}

TEST_CASE("planning between trials does not count as trials or in the remaining time") {
  const std::string seen = on_terminal([] {
    memtune::cli::Progress progress({});
    memtune::sweep::SweepTrialEntry none;
    none.strategy = "none";
    progress.planned({none}, 0, 1);
    progress.started(none, 1);
    progress.ended({});
    progress.planning(3, 8);
  });
  CHECK(seen.ends_with("\r\x1b[Kcomputing plans  budget 3/8\r\x1b[K"));
}

TEST_CASE("what a command prints is above the status line, and hides it within a line") {
  const auto act = [](bool quiet) {
    memtune::cli::Progress progress({.quiet = quiet});
    memtune::sweep::SweepTrialEntry variant;
    variant.strategy = "batch=8";
    progress.planned({variant}, 0, 1);
    progress.started(variant, 1);
    progress.phase({"step", 4, 7, "312 ms, 18.2 GiB"});
    progress.printed("loss 2.5\n");
    progress.printed("10 %");
    progress.phase({"step", 5, 7, "311 ms, 18.2 GiB"});
    progress.printed(" 20 %");
    progress.ended({});
  };
  const std::string clear = "\r\x1b[K", line = "[1/1] batch=8  step 4/7  312 ms, 18.2 GiB";
  const std::string seen = on_terminal([&] { act(false); });
  CAPTURE(seen);
  CHECK(seen.ends_with(clear + line + clear + "loss 2.5\r\n" + clear + line + clear +
                       "10 % 20 %\r\n[1/1] batch=8  0.0000 ms, 0 B\r\n"));
  CHECK(on_terminal([&] { act(true); }) == "loss 2.5\r\n10 % 20 %\r\n");
}

TEST_CASE("predicted plans are counted on a terminal and leave nothing on it") {
  const PaperRun place;
  const std::string line = place.shell_line("plan --from memtune-run");
  const std::string seen = on_terminal(line.substr(0, line.rfind(" >out")) + " >out");
  CHECK(seen.find("\r\x1b[Kcomputing plans  budget 1/8") != std::string::npos);
  CHECK(seen.find("\r\x1b[Kcomputing plans  budget 8/8") != std::string::npos);
  CHECK(seen.ends_with("\r\x1b[K"));
}

}  // namespace memtune::progress_test
