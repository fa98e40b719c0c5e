// A command may end in any way that a process can. Each must give one outcome in time and leave no process.
#include "core/measure/attach/command.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <fstream>

#include "core/base/error.h"
#include "core/measure/process/interrupt.h"
#include "tests/attach/recorded.h"
#include "tests/support/out_of_memory_breakdown.h"

namespace memtune::command_test {

using namespace memtune;
using namespace memtune::attach;
using namespace std::chrono_literals;
using memtune::result::TrialOutcome;
using Clock = std::chrono::steady_clock;

namespace {

struct Stage {
  test::ScratchFolder folder;
  CommandSettings settings;

  Stage() {
    settings.folder = folder.path;
    settings.limit = 20s;
    settings.grace = 300ms;
    settings.shutdown_timeout = 300ms;
  }

  // Runs a shell script that may call `train` and `finished`.
  MeasuredTrainingCommandResult run(const std::string& script) {
    settings.command = {"sh", "-c", tests::kTrain + script, "sh", folder.path.string()};
    return measure_command(settings);
  }
  std::string log() const { return test::slurp(folder.path / "log.txt"); }
};

bool has_note(const MeasuredTrainingCommandResult& result, const std::string& words) {
  return std::ranges::any_of(result.notes, [&](const auto& note) { return note.find(words) != std::string::npos; });
}

// Whether the process that wrote its id to the file still runs. A zombie that waits for init counts as ended.
bool runs(const std::filesystem::path& file) {
  const std::string text = test::slurp(file);
  if (text.empty() || ::kill(static_cast<pid_t>(std::stol(text)), 0) != 0) return false;
  const std::string stat = test::slurp("/proc/" + std::to_string(std::stol(text)) + "/stat");
  return stat.find(") Z") == std::string::npos;
}

}  // namespace

TEST_CASE("a command that takes all its steps gives its measurements") {
  Stage stage;
  std::vector<int64_t> told;
  stage.settings.progress = [&](const CommandProgress& now) {
    CHECK(now.steps == 7);
    CHECK(now.peak_bytes == 1000);
    CHECK(now.step_ms == double(now.step));
    told.push_back(now.step);
  };
  const MeasuredTrainingCommandResult result =
      stage.run("train 10 0 1 7; finished 10; echo hello $MEMTUNE_ATTACH_SHOW");
  const result::TrialMeasurement& m = result.row.measurement;
  CHECK(m.outcome == TrialOutcome::ok);
  CHECK(m.reason.empty());
  CHECK(m.strategy == "command");
  CHECK(m.step_ms.samples == std::vector<double>{3, 4, 5, 6, 7});
  CHECK(m.loss == std::vector<double>{1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5});
  CHECK(m.peak_bytes.allocated == 1000);
  CHECK(m.peak_bytes.reserved == 2000);
  CHECK(m.optimizer_ms == 0.5);
  CHECK(m.ranks.empty());
  CHECK(m.device.starts_with("CPU ("));
  CHECK(result.torch == "2.11");
  CHECK(stage.log() == "hello\n");
  REQUIRE_FALSE(told.empty());
  CHECK(told.back() == 7);
}

TEST_CASE("what a command prints is passed on as it comes, and goes to its log too") {
  Stage stage;
  std::string printed;
  stage.settings.output = [&](std::string_view text) {
    printed += text;
    if (printed.ends_with("first\n")) std::ofstream(stage.folder.path / "read");
  };
  stage.run("echo first; until [ -e $1/read ]; do sleep 0.01; done; echo second $MEMTUNE_ATTACH_SHOW >&2");
  CHECK(printed == "first\nsecond 1\n");
  CHECK(stage.log() == printed);
}

TEST_CASE("implausible records are rejected and give no measurement") {
  const auto refusal = [](const std::string& step, const std::string& cuda = "false") {
    Stage stage;
    const MeasuredTrainingCommandResult result =
        stage.run("train 10 0 1 2; sed -i 's/\"cuda\": false/\"cuda\": " + cuda +
                  "/' $MEMTUNE_ATTACH/10.jsonl; echo '{\"record\": \"step\", \"step\": 3, " +
                  "\"phase\": \"measured\", \"loss\": [1], " + step + "}' >>$MEMTUNE_ATTACH/10.jsonl; finished 10");
    const result::TrialMeasurement& m = result.row.measurement;
    CHECK(m.peak_bytes.allocated == 0);
    CHECK(m.step_ms.samples.empty());
    CHECK(m.outcome == TrialOutcome::error);
    return m.reason;
  };
  const std::string no = "its records are not plausible: ";
  CHECK(refusal(R"("ms": 1e308)").starts_with(no + "a record of kind step: ms: 1e+308 is no number"));
  CHECK(refusal(R"("ms": -5)").starts_with(no + "a record of kind step: ms: -5 is no number"));
  CHECK(refusal(R"("ms": 900000)").starts_with(no + "step 3 ends after "));
  CHECK(refusal(R"("ms": 5, "optimizer_ms": 900000)").starts_with(no + "step 3 ends after "));
  CHECK(refusal(R"("ms": 5, "allocated": 9223372036854775807)").find("allocated: 9223372036854775807") !=
        std::string::npos);
  CHECK(refusal(R"("ms": 5, "allocated": 1125899906842624)").starts_with(no + "step 3 has a peak of 1 PiB, and there"));
  CHECK(refusal(R"("ms": 5, "reserved": 1125899906842624)", "true").ends_with("and there are 8 TiB on a device"));
}

TEST_CASE("the memory of a device in the settings limits the plausible peaks") {
  Stage stage;
  stage.settings.device_bytes = 999;
  const MeasuredTrainingCommandResult result =
      stage.run("train 10 0 1 7; sed -i 's/\"cuda\": false/\"cuda\": true/' $MEMTUNE_ATTACH/10.jsonl; finished 10");
  CHECK(result.row.measurement.reason ==
        "its records are not plausible: step 1 has a peak of 1.95 KiB, and there are 999 B on a device");
}

TEST_CASE("figures of several ranks are those of the slowest step and the highest peak") {
  const MeasuredTrainingCommandResult result = Stage().run("train 10 1 2 7; train 11 0 2 7; finished 10; finished 11");
  const result::TrialMeasurement& m = result.row.measurement;
  CHECK(m.outcome == TrialOutcome::ok);
  CHECK(m.step_ms.samples == std::vector<double>{4, 5, 6, 7, 8});
  CHECK(m.peak_bytes.allocated == 1001);
  REQUIRE(m.ranks.size() == 2);
  CHECK(m.ranks[0].rank == 0);
  CHECK(m.ranks[0].step_ms.median == 5);
  CHECK(m.ranks[1].step_ms.median == 6);
}

TEST_CASE("a failed rank fails the command even if other ranks succeeded") {
  const MeasuredTrainingCommandResult result = Stage().run("train 10 0 2 7; finished 10; train 11 1 2 3; exit 1");
  CHECK(result.row.measurement.outcome == TrialOutcome::error);
  CHECK(result.row.measurement.reason.starts_with("ended with exit code 1 and no result after step 3 of 7"));
}

TEST_CASE("a failure after the measured steps is a note and the measurements stay") {
  const MeasuredTrainingCommandResult result = Stage().run(
      "train 10 0 1 7; printf '%s\\n' '{\"record\": \"exception\", \"type\": \"KeyError\", \"text\": \"x\"}' "
      ">>$MEMTUNE_ATTACH/10.jsonl; exit 3");
  CHECK(result.row.measurement.outcome == TrialOutcome::ok);
  CHECK(result.row.measurement.step_ms.samples == std::vector<double>{3, 4, 5, 6, 7});
  CHECK(result.notes.front() == "after the measured steps it ended with exit code 3");
}

TEST_CASE("an exception is the reason and one for lack of memory has its own outcome") {
  const auto outcome = [](const std::string& type, const std::string& text) {
    return Stage().run("train 10 0 1 3; printf '%s\\n' '{\"record\": \"exception\", \"type\": \"" + type +
                       "\", \"text\": \"" + text + "\"}' >>$MEMTUNE_ATTACH/10.jsonl; exit 1");
  };
  const MeasuredTrainingCommandResult error = outcome("ValueError", "no such key\\nsecond line");
  CHECK(error.row.measurement.outcome == TrialOutcome::error);
  CHECK(error.row.measurement.reason == "ValueError: no such key (after step 3 of 7)");
  CHECK(outcome("OutOfMemoryError", "CUDA out of memory.").row.measurement.outcome == TrialOutcome::device_oom);
  const auto fragmented = [&](const std::string& text) {
    return outcome("OutOfMemoryError", text).row.measurement.fragmented;
  };
  CHECK(fragmented(test::out_of_memory_text()));  // 2 GiB asked, 7.01 free in pieces
  CHECK_FALSE(
      fragmented("CUDA out of memory. Tried to allocate 9.00 GiB. 7.01 GiB is reserved by PyTorch but unallocated."));
  CHECK_FALSE(fragmented("CUDA out of memory."));
  CHECK_FALSE(fragmented("Tried to allocate much. is reserved by PyTorch but unallocated"));
  CHECK(outcome("MemoryError", "").row.measurement.outcome == TrialOutcome::host_oom);
  CHECK(outcome("OSError", "[Errno 28] No space left on device").row.measurement.outcome == TrialOutcome::disk_full);
}

TEST_CASE("an out-of-memory message of PyTorch is kept whole and other long messages lose their middle") {
  const auto reason = [](const std::string& type, const std::string& text) {
    return Stage()
        .run("train 10 0 1 3; printf '%s\\n' '{\"record\": \"exception\", \"type\": \"" + type + "\", \"text\": \"" +
             text + "\"}' >>$MEMTUNE_ATTACH/10.jsonl; exit 1")
        .row.measurement.reason;
  };
  for (const int processes : {1, 30}) {
    const std::string text = test::out_of_memory_text(processes);
    CHECK(reason("OutOfMemoryError", text) == "OutOfMemoryError: " + text + " (after step 3 of 7)");
    CHECK(reason("ProcessRaisedException",
                 "Traceback (most recent call last):\\n f()\\ntorch.OutOfMemoryError: " + text) ==
          "ProcessRaisedException: torch.OutOfMemoryError: " + text + " (after step 3 of 7)");
  }
  const std::string other = reason("ValueError", "first " + std::string(5000, 'x') + " so set this");
  CHECK(other.size() < 600);
  CHECK(other.starts_with("ValueError: first x"));
  CHECK(other.ends_with("x so set this (after step 3 of 7)"));
}

TEST_CASE("out of memory in a process without records is reported from the log despite lines of a launcher") {
  const std::string text = test::out_of_memory_text();
  const MeasuredTrainingCommandResult result =
      Stage().run("printf '%s\\n' 'torch.OutOfMemoryError: " + text +
                  "' 'E1126 worker 0 failed' '====' 'closing the agent'; exit 1");
  CHECK(result.row.measurement.outcome == TrialOutcome::device_oom);
  CHECK(result.row.measurement.reason.find("torch.OutOfMemoryError: " + text + " | closing the agent") !=
        std::string::npos);
}

TEST_CASE("a worker's traceback is reported by its last line and a helper's exception is no failure") {
  const std::string raised =
      "printf '%s\\n' '{\"record\": \"exception\", \"type\": \"ProcessRaisedException\", \"text\": \""
      "-- Process 1 terminated\\n\\nTraceback (most recent call last):\\n f()\\nKeyError: 3\\n\"}' "
      ">>$MEMTUNE_ATTACH/9.jsonl; ";
  const MeasuredTrainingCommandResult failed = Stage().run("train 10 0 1 3; " + raised + "exit 1");
  CHECK(failed.row.measurement.reason == "ProcessRaisedException: KeyError: 3 (after step 3 of 7)");
  CHECK(Stage().run("train 10 0 1 4; " + raised).row.measurement.outcome == TrialOutcome::ok);
  CHECK(Stage().run(raised).row.measurement.reason.starts_with("ProcessRaisedException: KeyError: 3"));
}

TEST_CASE("if several ranks raise exceptions the first one is the reason") {
  const auto exception = [](int pid, int time_s, const char* text) {
    return "echo '{\"record\": \"exception\", \"time_s\": " + std::to_string(time_s) +
           ", \"type\": \"E\", \"text\": \"" + text + "\"}' >>$MEMTUNE_ATTACH/" + std::to_string(pid) + ".jsonl; ";
  };
  const MeasuredTrainingCommandResult result = Stage().run(
      "train 10 0 2 3; train 11 1 2 3; " + exception(10, 7, "peer is gone") + exception(11, 6, "unwell") + "exit 1");
  CHECK(result.row.measurement.reason == "E: unwell (after step 3 of 7)");
}

TEST_CASE("a signal in a launcher's message is the outcome") {
  const MeasuredTrainingCommandResult result = Stage().run(
      "train 10 0 2 3; printf '%s\\n' '{\"record\": \"exception\", \"type\": \"ChildFailedError\", \"text\": "
      "\"\\n====\\ntrain.py FAILED\\n traceback : Signal 11 (SIGSEGV) received by PID 7\"}' >>$MEMTUNE_ATTACH/9.jsonl; "
      "exit 1");
  CHECK(result.row.measurement.outcome == TrialOutcome::crash);
  CHECK(result.row.measurement.reason ==
        "SIGSEGV (Segmentation fault) after step 3 of 7; of a process that the command started");
}

TEST_CASE("a failed command reports exit code or signal and step and log tail") {
  const MeasuredTrainingCommandResult fails = Stage().run("echo something is rotten; exit 3");
  CHECK(fails.row.measurement.outcome == TrialOutcome::error);
  CHECK(fails.row.measurement.reason ==
        "ended with exit code 3 and no result before its first optimizer step; last lines of its log: something is "
        "rotten");
  const MeasuredTrainingCommandResult crashes = Stage().run("train 10 0 1 1; kill -SEGV $$");
  CHECK(crashes.row.measurement.outcome == TrialOutcome::crash);
  CHECK(crashes.row.measurement.reason.starts_with("SIGSEGV (Segmentation fault) after step 1 of 7"));
  const TrialOutcome killed = Stage().run("kill -KILL $$").row.measurement.outcome;
  CHECK((killed == TrialOutcome::killed || killed == TrialOutcome::host_oom));
}

TEST_CASE("a command that ends early and one that never trained have different reasons") {
  CHECK(Stage().run("true").row.measurement.reason.find("no Python process of it loaded") != std::string::npos);
  CHECK(Stage().run(">$MEMTUNE_ATTACH/python").row.measurement.reason.ends_with("its Python imported no PyTorch"));
  CHECK(Stage()
            .run(">$MEMTUNE_ATTACH/python; >$MEMTUNE_ATTACH/torch")
            .row.measurement.reason.find("no optimizer of torch.optim took a step") != std::string::npos);
  const MeasuredTrainingCommandResult early = Stage().run("train 10 0 1 4");
  CHECK(early.row.measurement.outcome == TrialOutcome::ok);
  CHECK(early.row.measurement.step_ms.samples == std::vector<double>{3, 4});
  CHECK(has_note(early, "it ended by itself after 2 of 5 measured steps"));
  const MeasuredTrainingCommandResult warm = Stage().run("train 10 0 1 2");
  CHECK(warm.row.measurement.outcome == TrialOutcome::error);
  CHECK(warm.row.measurement.reason == "it ended by itself (exit code 0) after step 2 of 7");
}

TEST_CASE("a loss that is not a number has the outcome nan") {
  const std::string step =
      R"(echo '{"record": "step", "step": 8, "phase": "measured", "ms": 1, "loss": [null]}' >>$MEMTUNE_ATTACH/10.jsonl; )";
  const MeasuredTrainingCommandResult result = Stage().run("train 10 0 1 7; " + step + "finished 10");
  CHECK(result.row.measurement.outcome == TrialOutcome::nan);
  CHECK(result.row.measurement.reason == "the loss of step 8 is not a number");
}

TEST_CASE("a command that hangs is killed with all descendants even if they ignore SIGTERM or left its group") {
  Stage stage;
  stage.settings.limit = 2500ms;
  const auto began = Clock::now();
  const MeasuredTrainingCommandResult result = stage.run(
      "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >$0/orphan; while :; do sleep 1; done' $1 & "
      "(sh -c 'echo $$ >$0/child; exec sleep 100' $1 &) ; while [ ! -s $1/orphan ] || [ ! -s $1/child ]; do :; done; "
      "train 10 0 1 3; while :; do sleep 1; done");
  CHECK(result.row.measurement.outcome == TrialOutcome::ok);  // one measured step
  CHECK(has_note(result, "it was stopped at its limit of 2.5 s, after 1 of 5 measured steps"));
  CHECK(Clock::now() - began < 10s);
  REQUIRE(std::filesystem::exists(stage.folder.path / "orphan"));
  CHECK_FALSE(runs(stage.folder.path / "orphan"));
  CHECK_FALSE(runs(stage.folder.path / "child"));
}

TEST_CASE("the limit is for the time without a step") {
  const std::string slow =
      "train 10 0 1 2; for i in 3 4 5 6 7; do sleep 0.4; echo '{\"record\": \"step\", \"step\": '$i', \"phase\": "
      "\"measured\", \"ms\": 5, \"loss\": [1.5]}' >>$MEMTUNE_ATTACH/10.jsonl; done; finished 10";
  Stage steady;
  steady.settings.limit = 1500ms;  // all steps take 2 s
  const MeasuredTrainingCommandResult all = steady.run(slow);
  CHECK(all.row.measurement.outcome == TrialOutcome::ok);
  CHECK(all.row.measurement.step_ms.samples.size() == 5);
  Stage whole;
  whole.settings.whole_limit = 1300ms;
  const MeasuredTrainingCommandResult part = whole.run(slow);
  CHECK(part.row.measurement.outcome == TrialOutcome::ok);
  CHECK(has_note(part, "it was stopped at its limit of 1.3 s, after "));
  Stage none;
  none.settings.limit = 500ms;
  const MeasuredTrainingCommandResult warm = none.run("train 10 0 1 2; exec sleep 100");
  CHECK(warm.row.measurement.outcome == TrialOutcome::timeout);
  CHECK(warm.row.measurement.reason == "no step within 0.5 s, after step 2 of 7");
  Stage end;
  end.settings.whole_limit = 500ms;
  CHECK(end.run("exec sleep 100")
            .row.measurement.reason.starts_with("no end within 0.5 s, before its first optimizer step"));
}

TEST_CASE("a command that does not end after its steps is killed and its measurements stay") {
  Stage stage;
  const MeasuredTrainingCommandResult result =
      stage.run("trap '' TERM; train 10 0 1 7; finished 10; while :; do sleep 1; done");
  CHECK(result.row.measurement.outcome == TrialOutcome::ok);
  CHECK(result.row.measurement.step_ms.samples.size() == 5);
  CHECK(has_note(result, "it did not exit after its steps and was stopped"));
}

TEST_CASE("processes that a command leaves behind are killed when it ends") {
  Stage stage;
  const MeasuredTrainingCommandResult result = stage.run(
      "setsid sh -c 'echo $$ >$0/left; exec sleep 100' $1 & while [ ! -s $1/left ]; do :; done; "
      "train 10 0 1 7; finished 10");
  CHECK(result.row.measurement.outcome == TrialOutcome::ok);
  CHECK_FALSE(runs(stage.folder.path / "left"));
}

TEST_CASE("gigabytes of output are truncated in the log") {
  Stage stage;
  const MeasuredTrainingCommandResult result =
      stage.run("train 10 0 1 7; yes | head -c 300000000; echo the end; finished 10");
  CHECK(result.row.measurement.outcome == TrialOutcome::ok);
  CHECK(std::filesystem::file_size(stage.folder.path / "log.txt") < 10'000'000);
  CHECK(stage.log().ends_with("the end\n"));
}

TEST_CASE("a program that does not exist is a usage error") {
  Stage stage;
  stage.settings.command = {"no-such-program-anywhere"};
  CHECK_THROWS_WITH_AS(measure_command(stage.settings),
                       "cannot run 'no-such-program-anywhere': No such file or directory", UsageError);
}

TEST_CASE("a TMPDIR with a colon is rejected because PYTHONPATH cannot name it") {
  Stage stage;
  std::filesystem::create_directory(stage.folder.path / "a:b");
  const test::Variable place("TMPDIR", (stage.folder.path / "a:b").string());
  CHECK_THROWS_AS(stage.run("true"), UsageError);
  CHECK(std::filesystem::is_empty(stage.folder.path / "a:b"));
}

TEST_CASE("a signal to this process ends the command with the outcome interrupted") {
  Stage stage;
  const process::InterruptScope interrupts;
  ::raise(SIGTERM);
  const MeasuredTrainingCommandResult result = stage.run("train 10 0 1 3; sleep 100");
  CHECK(result.row.measurement.outcome == TrialOutcome::interrupted);
  CHECK(result.row.measurement.reason.starts_with("stopped "));
}

TEST_CASE("PYTHONPATH never gets an empty part because that means the current folder") {
  for (const char* own : {"", "/mine"}) {
    Stage stage;
    const test::Variable path("PYTHONPATH", own);
    stage.run("echo \"$PYTHONPATH|\"");
    CHECK(stage.log().ends_with(*own ? "/shim:/mine|\n" : "/shim|\n"));
  }
}

TEST_CASE("the command's environment has what the shim needs and keeps an existing PYTHONPATH") {
  Stage stage;
  const test::Variable path("PYTHONPATH", "/mine:/too");
  stage.run(
      "echo \"$PYTHONPATH|$MEMTUNE_ATTACH_STEPS\"; cd ${PYTHONPATH%%:*}; ls sitecustomize.py; [ -d $MEMTUNE_ATTACH ] "
      "&& echo there");
  const std::string log = stage.log();
  CHECK(log.find("/shim:/mine:/too|2+5+2\nsitecustomize.py\nthere\n") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(log.substr(0, log.find("/shim"))));
}

}  // namespace memtune::command_test
