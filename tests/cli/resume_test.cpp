// A sweep may be stopped or killed at any moment. The same command then finishes it with the same result.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/attach/recorded.h"
#include "tests/support/run_program.h"

namespace memtune::resume_test {

using memtune::test::Ended;
using memtune::test::slurp;
using memtune::test::Variable;
using memtune::test::Workspace;
using nlohmann::json;

namespace {

constexpr char kSweep[] = "sweep -q --sweep quick --rounds 3 --json answer.json";

// Starts a sweep and signals it once `strategy` runs; returns the exit code in the shell's convention.
int stop_in(const Workspace& place, const std::string& strategy, int signal) {
  const Variable rules("FAKE_TRIAL", strategy + "=sleep");
  const std::string line = place.shell_line(kSweep);
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    std::_Exit(127);
  }
  int status = 0;
  while (place.starts().find(strategy) == std::string::npos) {
    if (waitpid(pid, &status, WNOHANG) == pid) FAIL("the sweep ended without " << strategy);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(pid, signal);
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The answer without the date and the load of the machine.
json answer_in(const Workspace& place) {
  json answer = json::parse(slurp(place.folder.path / "answer.json"));
  answer.at("origin").erase("written");
  answer.erase("warnings");
  for (json& trial : answer.at("trials"))
    for (json& round : trial.at("rounds")) round.erase("load"), round.erase("other_cores");
  return answer;
}

json uninterrupted() {
  const Workspace place;
  place.memtune(kSweep);
  return answer_in(place);
}

constexpr char kLaterRounds[] =
    "none again\ncheckpoint:full again\noffload:stream again\n"
    "none again\ncheckpoint:full again\noffload:stream again\n";

}  // namespace

TEST_CASE("after SIGKILL only unfinished trials run and the result is the same") {
  const Workspace place;
  CHECK(stop_in(place, "checkpoint:full", SIGKILL) == 128 + SIGKILL);
  CHECK(place.starts() == "inspect\nnone\ncheckpoint:full\n");
  const Ended ended = place.memtune(kSweep);
  CHECK(ended.code == 0);
  CHECK(place.starts() ==
        std::string("inspect\nnone\ncheckpoint:full\nnone again\ncheckpoint:full\noffload:stream\n") + kLaterRounds);
  CHECK(answer_in(place) == uninterrupted());
}

TEST_CASE("after SIGKILL in a later round the first is kept and the baseline is measured again with the rest") {
  const Workspace place;
  CHECK(stop_in(place, "checkpoint:full again", SIGKILL) == 128 + SIGKILL);
  CHECK(place.memtune(kSweep).code == 0);
  const std::string first = "inspect\nnone\ncheckpoint:full\noffload:stream\nnone again\ncheckpoint:full again\n";
  CHECK(place.starts() == first + kLaterRounds);
  CHECK(answer_in(place) == uninterrupted());
}

TEST_CASE("after SIGKILL during inspection the sweep starts from scratch") {
  const Workspace place;
  CHECK(stop_in(place, "inspect", SIGKILL) == 128 + SIGKILL);
  CHECK(place.memtune(kSweep).code == 0);
  CHECK(answer_in(place) == uninterrupted());
}

TEST_CASE("Ctrl-C ends the running trial and writes the finished ones and exits with 130") {
  const Workspace place;
  CHECK(stop_in(place, "checkpoint:full", SIGINT) == 130);
  const json partial = json::parse(slurp(place.folder.path / "answer.json"));
  REQUIRE(partial.at("trials").size() == 2);
  CHECK(partial.at("trials")[0].at("outcome") == "ok");
  CHECK(partial.at("trials")[1].at("outcome") == "interrupted");
  CHECK(partial.at("notes").back() == "1 of 3 trials have not run; run the same sweep again to continue");
  CHECK(place.memtune(kSweep).code == 0);
  CHECK(place.starts() ==
        std::string("inspect\nnone\ncheckpoint:full\nnone again\ncheckpoint:full\noffload:stream\n") + kLaterRounds);
  CHECK(answer_in(place) == uninterrupted());
}

TEST_CASE("reused trials are reported") {
  const Workspace place;
  place.memtune("sweep --model tiny --sweep quick");
  const Ended again = place.memtune("sweep --model tiny --sweep quick");
  CHECK(again.err.starts_with("continuing: 3 of 3 trials are already done\n"));
}

TEST_CASE("failed trials that are not run again are reported with the option that does") {
  const Workspace place;
  place.memtune("sweep --model tiny --sweep quick", "none=crash");
  const std::string said = "1 of 3 trials failed in an earlier sweep; --retry runs these again\n";
  CHECK(place.memtune("sweep --model tiny --sweep quick").err.find(said) != std::string::npos);
  CHECK(place.memtune("sweep --model tiny --sweep quick --retry").err.find("--retry") == std::string::npos);
  CHECK(place.memtune("sweep --model tiny --sweep quick").err.find("--retry") == std::string::npos);
}

TEST_CASE("a killed command sweep resumes and its child processes are gone") {
  const Workspace place;
  const std::string folder = place.folder.path.string();
  std::ofstream(place.folder.path / "train.sh")
      << memtune::tests::kTrain << "echo $1 >>'" << folder << "/told'\n"
      << "[ $1 != 10 ] || [ -e '" << folder << "/go' ] || { echo $$ >'" << folder << "/pid'; sleep 100; }\n"
      << "train $$ $1 1 7; finished $$\n";
  const std::string line = "sweep -q --rounds 2 --json answer.json --try 'ms=20;10;30' -- sh train.sh {ms}";
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", place.shell_line(line).c_str(), nullptr);
    std::_Exit(127);
  }
  while (slurp(place.folder.path / "pid").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  const auto running = static_cast<pid_t>(std::stol(slurp(place.folder.path / "pid")));
  for (int i = 0; i < 2000 && kill(running, 0) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(kill(running, 0) != 0);
  std::ofstream(place.folder.path / "go") << "on";
  CHECK(place.memtune(line).code == 0);
  CHECK(slurp(place.folder.path / "told") == "20\n10\n20\n10\n30\n20\n10\n30\n");  // the base is measured again
  const json answer = json::parse(slurp(place.folder.path / "answer.json"));
  CHECK(answer.at("trials").size() == 3);
  CHECK(answer.at("recommendation").at("strategy") == "ms=10");
  CHECK(answer.at("trials")[1].at("command") == json({"sh", "train.sh", "10"}));
  CHECK(place.memtune("report").code == 0);
  CHECK(place.memtune("export --trainer torchtune").code == 2);
}

}  // namespace memtune::resume_test
