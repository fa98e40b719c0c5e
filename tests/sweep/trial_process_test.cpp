// A trial may end in any way that a process can end. Each end must give one typed answer in time and leave nothing
// behind.
#include "core/sweep/trials/trial_process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/measure/process/child.h"
#include "core/measure/process/end.h"
#include "core/measure/process/interrupt.h"
#include "core/plan/request/trial_request.h"
#include "core/sweep/trials/prestarted_trial_process.h"
#include "core/sweep/trials/spawn.h"
#include "core/sweep/trials/trial_output_frame_parser.h"
#include "tests/support/run_program.h"

namespace memtune::trial_process_test {

using namespace memtune;
using namespace memtune::sweep;
using namespace std::chrono_literals;
using memtune::result::TrialOutcome;

namespace {

struct Stage {
  test::ScratchFolder folder;
  test::Variable trial{"MEMTUNE_TRIAL", test::fake_trial()};
  std::vector<std::string> phases;

  std::function<int64_t()> available_memory = available_memory_bytes;
  PrestartedTrialProcess* spare = nullptr;

  TrialAnswer run(const std::string& behaviour, std::chrono::milliseconds limit = 20s) {
    const test::Variable rules("FAKE_TRIAL", "later=logged;none=" + behaviour);
    const test::Variable log("FAKE_TRIAL_LOG", (folder.path / "starts").string());
    plan::TrialRequest request;
    request.plan.strategy = "none";
    request.envelope.reference = (folder.path / "reference").string();
    request.envelope.trace = (folder.path / "trace").string();
    write_file(folder.path / "request.json", nlohmann::json(request).dump());
    TrialProcessSettings settings{{"run", (folder.path / "request.json").string()},
                                  folder.path / "log.txt",
                                  limit,
                                  [this](const TrialPhaseProgress& phase) { phases.push_back(phase.name); }};
    settings.available_memory = available_memory;
    settings.spare = spare;
    return run_trial_process(settings);
  }

  ProcessFailure failure(const std::string& behaviour, std::chrono::milliseconds limit = 20s) {
    const TrialAnswer answer = run(behaviour, limit);
    REQUIRE(std::holds_alternative<ProcessFailure>(answer));
    return std::get<ProcessFailure>(answer);
  }
};

// Children of this thread, running or not yet waited for.
std::string children() { return test::slurp("/proc/thread-self/children"); }

}  // namespace

TEST_CASE("as a trial ends the process of the next one is started and takes its request") {
  Stage stage;
  {
    PrestartedTrialProcess spare("cpu");
    stage.spare = &spare;
    for (int i = 0; i < 3; ++i) REQUIRE(std::holds_alternative<result::TrialMeasurement>(stage.run("ok")));
    CHECK(children() != "");
  }
  CHECK(children() == "");  // the last one ended unused
  CHECK(test::slurp(stage.folder.path / "starts") == "none\nwaited\nnone\nwaited\nnone\n");
}

TEST_CASE("each end of a trial that was started ahead is reported like that of another") {
  Stage stage;
  PrestartedTrialProcess spare("cpu");
  stage.spare = &spare;
  const auto start = [&](const std::string& behaviour) {  // it has the environment of its start
    const test::Variable rules("FAKE_TRIAL", "later=logged;none=" + behaviour);
    spare.start(0);
  };
  start("crash");
  const ProcessFailure crash = stage.failure("crash");
  CHECK(crash.outcome == TrialOutcome::crash);
  CHECK(crash.reason ==
        "SIGSEGV (Segmentation fault) in phase measure, step 1 of 5; last lines of its log: loading | something is "
        "rotten");
  CHECK_FALSE(spare.take({"run", "x"}, 4));  // ends the one that run_trial_process() started with other rules
  start("hang");
  CHECK(stage.failure("hang", 500ms).outcome == TrialOutcome::timeout);
}

TEST_CASE("a process started ahead that has ended or has another number of threads is not taken") {
  Stage stage;
  PrestartedTrialProcess spare("cpu");
  {
    const test::Variable rules("FAKE_TRIAL", "later=crash");
    spare.start(0);
  }
  const std::string pid = children();
  siginfo_t ended{};
  CHECK(waitid(P_PID, static_cast<id_t>(std::stol(pid)), &ended, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(spare.take({"run", "x"}, 0));
  CHECK(children() == "");
  stage.spare = &spare;
  CHECK(std::holds_alternative<result::TrialMeasurement>(stage.run("ok")));
  spare.start(4);
  CHECK_FALSE(spare.take({"run", "x"}, 2));
  const test::Variable none("MEMTUNE_TRIAL", "/nowhere/memtune-trial");
  spare.start(4);
  CHECK_FALSE(spare.take({"run", "x"}, 4));
  CHECK(children() == "");
}

TEST_CASE("a trial that works returns its measurement and reports its phases") {
  Stage stage;
  const TrialAnswer answer = stage.run("ok");
  REQUIRE(std::holds_alternative<result::TrialMeasurement>(answer));
  CHECK(std::get<result::TrialMeasurement>(answer).step_ms.median == 100);
  CHECK(stage.phases == std::vector<std::string>{"load", "measure"});
}

TEST_CASE("a signal is reported as a crash with its name and phase and the log tail") {
  const ProcessFailure failure = Stage().failure("crash");
  CHECK(failure.outcome == TrialOutcome::crash);
  CHECK(failure.reason ==
        "SIGSEGV (Segmentation fault) in phase measure, step 1 of 5; last lines of its log: loading | something is "
        "rotten");
}

TEST_CASE("a LibTorch without the program's symbols is refused in words of the user") {
  const TrialAnswer answer = Stage().run("no-symbols");
  REQUIRE(std::holds_alternative<ReceivedUsageError>(answer));
  CHECK(std::get<ReceivedUsageError>(answer).message.starts_with(
      "memtune-trial is built for another minor release of PyTorch than the LibTorch that it found: "));
}

TEST_CASE("a trial that exceeds the file size limit is disk_full and not a crash") {
  const ProcessFailure failure = Stage().failure("file-limit");
  CHECK(failure.outcome == TrialOutcome::disk_full);
  CHECK(
      failure.reason.starts_with("ended in phase measure, step 1 of 5 by writing a file beyond the limit on their size "
                                 "(ulimit -f); it logged nothing"));
}

TEST_CASE("std::bad_alloc in a thread or before main is reported as host_oom") {
  const std::string words = "last lines of its log: terminate called after throwing an instance of 'std::bad_alloc'";
  const ProcessFailure failure = process::classify_end(SIGABRT, 0, "before its first phase", words);
  CHECK(failure.outcome == TrialOutcome::host_oom);
  CHECK(failure.reason == "out of host memory before its first phase; " + words);
  CHECK(process::classify_end(SIGABRT, 0, "here", "last lines of its log: assertion failed").outcome ==
        TrialOutcome::crash);
}

TEST_CASE("a truncated mapped file is a SIGBUS of the trial and not of the sweep") {
  const ProcessFailure failure = Stage().failure("cut-map");
  CHECK(failure.outcome == TrialOutcome::crash);
  CHECK(failure.reason.starts_with("SIGBUS (Bus error) in phase measure, step 1 of 5; "));
}

TEST_CASE("an error frame may name an outcome but not ok or an unknown one") {
  TrialOutputFrameParser reader(nullptr);
  reader.add("{\"frame\": \"error\", \"outcome\": \"host_oom\", \"message\": \"no\"}\n");
  REQUIRE(reader.answer());
  CHECK(std::get<ProcessFailure>(*reader.answer()).outcome == TrialOutcome::host_oom);
  for (const char* outcome : {"ok", "fine"}) {
    TrialOutputFrameParser other(nullptr);
    other.add("{\"frame\": \"error\", \"outcome\": \"" + std::string(outcome) + "\", \"message\": \"no\"}\n");
    CHECK_FALSE(other.answer());
    CHECK(other.damage().starts_with("a frame that makes no sense"));
  }
}

TEST_CASE("SIGKILL from outside is killed or host_oom by the kernel's count of memory kills") {
  const ProcessFailure failure = Stage().failure("killed");
  if (process::count_memory_kills()) CHECK(failure.outcome == TrialOutcome::killed);
  CHECK(process::classify_end(SIGKILL, 0, "here", "")
            .reason.starts_with("SIGKILL from outside here, not for lack of memory"));
  for (const std::optional<int64_t> kills : {std::optional<int64_t>(1), std::optional<int64_t>()}) {
    const ProcessFailure by_kernel = process::classify_end(SIGKILL, kills, "here", "");
    CHECK(by_kernel.outcome == TrialOutcome::host_oom);
    CHECK(by_kernel.reason.starts_with("killed by the kernel here, most likely out of host memory"));
  }
}

TEST_CASE("a trial that hangs and ignores SIGTERM is ended in time") {
  const auto start = std::chrono::steady_clock::now();
  const ProcessFailure failure = Stage().failure("hang", 500ms);
  CHECK(failure.outcome == TrialOutcome::timeout);
  CHECK(failure.reason == "no end within 0.5 s, in phase measure, step 1 of 5");
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}

TEST_CASE("an end without a result is an error with the exit code and the log tail") {
  const ProcessFailure failure = Stage().failure("silent");
  CHECK(failure.outcome == TrialOutcome::error);
  CHECK(failure.reason ==
        "ended with exit code 3 and no result in phase measure, step 1 of 5; last lines of its log: gave up");
}

TEST_CASE("invalid frames are an error that quotes them") {
  const ProcessFailure failure = Stage().failure("garbage");
  CHECK(failure.outcome == TrialOutcome::error);
  CHECK(failure.reason.find("a frame that makes no sense: 'no { json'") != std::string::npos);
}

TEST_CASE("an error or a usage error that the trial reports is passed on") {
  CHECK(Stage().failure("error").reason == "an unplanned error");
  const TrialAnswer answer = Stage().run("usage");
  REQUIRE(std::holds_alternative<ReceivedUsageError>(answer));
  CHECK(std::get<ReceivedUsageError>(answer).message == "the model rejects the input");
}

TEST_CASE("a result with a NaN loss is a measurement") {
  const TrialAnswer answer = Stage().run("nan");
  REQUIRE(std::holds_alternative<result::TrialMeasurement>(answer));
  CHECK(std::get<result::TrialMeasurement>(answer).outcome == TrialOutcome::nan);
}

TEST_CASE("a trial's environment makes cuBLAS deterministic by default and unsets kineto's daemon") {
  const test::Variable daemon("KINETO_USE_DAEMON", "1");
  CHECK(Stage().failure("environment").reason == ":4096:8 unset");
  const test::Variable workspace("CUBLAS_WORKSPACE_CONFIG", ":16:8");
  CHECK(Stage().failure("environment").reason == ":16:8 unset");
}

TEST_CASE("a result counts even if the process then hangs until the limit") {
  const TrialAnswer answer = Stage().run("lingers", 1s);
  CHECK(std::holds_alternative<result::TrialMeasurement>(answer));
}

TEST_CASE("a child that keeps the pipe open does not keep the sweep waiting") {
  const auto start = std::chrono::steady_clock::now();
  CHECK(std::holds_alternative<result::TrialMeasurement>(Stage().run("leaves-child")));
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}

TEST_CASE("a trial that takes the last of the machine's memory is ended as host_oom") {
  Stage stage;
  stage.available_memory = [left = int64_t{16} << 30]() mutable { return left -= int64_t{4} << 30; };
  const auto start = std::chrono::steady_clock::now();
  const ProcessFailure failure = stage.failure("sleep");
  CHECK(std::chrono::steady_clock::now() - start < 5s);
  CHECK(failure.outcome == TrialOutcome::host_oom);
  CHECK(failure.reason.find("because of host memory: less than 384 MiB are left of the 12 GiB") != std::string::npos);
}

TEST_CASE("a signal to this process ends the trial as interrupted") {
  Stage stage;
  const process::InterruptScope scope;
  CHECK_FALSE(process::interrupted());
  raise(SIGINT);
  CHECK(process::interrupted());
  const ProcessFailure failure = stage.failure("sleep");
  CHECK(failure.outcome == TrialOutcome::interrupted);
}

TEST_CASE("a trial program that does not exist is refused by name") {
  const test::Variable trial("MEMTUNE_TRIAL", "/no/such/program");
  CHECK_THROWS_WITH_AS(find_trial_program(), "MEMTUNE_TRIAL=/no/such/program is no program", UsageError);
}

TEST_CASE("frames may arrive in any pieces") {
  const std::string text = "{\"frame\": \"phase\", \"name\": \"load\"}\n{\"frame\": \"usage\", \"message\": \"no\"}\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    TrialOutputFrameParser reader(nullptr);
    reader.add(text.substr(0, cut));
    CHECK(reader.answer().has_value() == (cut == text.size()));
    reader.add(text.substr(cut));
    REQUIRE(reader.answer());
    CHECK(reader.phase().name == "load");
    CHECK(reader.damage() == "");
  }
}

TEST_CASE("a frame with a step out of range or deep nesting is refused") {
  for (const std::string& frame : {std::string(R"({"frame": "phase", "name": "load", "step": 1e300})"),
                                   std::string(R"({"frame": "phase", "name": "load", "step": 4294967297})"),
                                   R"({"frame": )" + std::string(60'000, '[') + std::string(60'000, ']') + "}"}) {
    TrialOutputFrameParser reader(nullptr);
    reader.add(frame + "\n");
    CHECK(reader.damage().starts_with("a frame that makes no sense"));
    CHECK(reader.phase().name == "");
  }
}

TEST_CASE("a trial gains no privileges, leaves no core file, and has limits") {
  const ProcessFailure failure = Stage().failure("limits");
  CHECK(failure.reason.find("no_new_privs 1, core 0") == 0);
}

TEST_CASE("a flood on stdout fills neither the disk nor memory") {
  Stage stage;
  stage.run("flood");
  CHECK(std::filesystem::file_size(stage.folder.path / "log.txt") < (size_t{9} << 20));
}

TEST_CASE("a trial's answer is read even if this process was started without streams") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int file = 0; file < 3; ++file) ::close(file);
    ::_exit(std::holds_alternative<result::TrialMeasurement>(Stage().run("ok")) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a child takes no lock that another thread held when it was forked") {
  std::vector<std::future<void>> threads;
  for (int i = 0; i < 4; ++i)
    threads.push_back(std::async(std::launch::async, [] {
      for (int started = 0; started < 100; ++started) {
        const std::vector<std::string> allocated(2000, std::string(100, 'x'));
        const process::Pipe log, frames;
        const pid_t child = spawn({"/bin/true"}, {}, log.write.get(), frames.write.get(), -1);
        CHECK(::waitpid(child, nullptr, 0) == child);
      }
    }));
  for (auto& thread : threads) thread.get();
}

}  // namespace memtune::trial_process_test
