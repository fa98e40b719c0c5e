// Trials take turns: their order, what later rounds do, and which results are kept.
#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/file.h"
#include "core/sweep/loop/machine_load.h"
#include "tests/sweep/sweep_bench.h"

namespace memtune::sweep_rounds_test {

using namespace memtune;
using namespace memtune::sweep;
using memtune::result::TrialOutcome;

namespace {

struct Turns : test::SweepBench {
  Turns() : SweepBench({"none", "checkpoint:full"}, 3) {}
};

const result::TrialMeasurement& second(const SweepRecordAndReport& result) {
  return result.report.rows.at(1).measurement;
}

}  // namespace

TEST_CASE("every trial runs in every round and only the first round checks gradients and traces") {
  Turns turns;
  const SweepRecordAndReport result = turns.run();
  CHECK(turns.starts() ==
        "inspect\nnone\ncheckpoint:full\nnone again\ncheckpoint:full again\nnone again\ncheckpoint:full again\n");
  CHECK(turns.listener.runs == 6);
  REQUIRE(second(result).rounds.size() == 3);
  for (const result::TrialRoundTimesAndMachineLoad& round : second(result).rounds) {
    CHECK(round.base == "none");
    CHECK(round.base_ms == 100);
    CHECK(round.step_ms.median == 125);
    CHECK(round.cores == usable_cores());
  }
  CHECK(second(result).gradients.equal);
  CHECK(second(result).trace == "trials/2-checkpoint-full/trace.mttrace");
  CHECK(second(result).step_ms.samples.size() == 15);
  CHECK(result.report.settings.ends_with("5 measured steps after 2 warm-up steps in each of 3 rounds"));
}

TEST_CASE("a repeated sweep runs nothing and more rounds add to those that are measured") {
  Turns turns;
  turns.run();
  turns.starts();
  turns.run();
  CHECK(turns.starts() == "");
  CHECK(turns.listener.reused == 2);
  CHECK(turns.listener.runs == 0);
  turns.settings.rounds = 4;
  CHECK(second(turns.run()).rounds.size() == 4);
  CHECK(turns.starts() == "none again\ncheckpoint:full again\n");
  turns.settings.rounds = 1;
  CHECK(second(turns.run()).rounds.size() == 4);
  CHECK(turns.starts() == "");
}

TEST_CASE("a round without an end in the journal is measured again with this run's baseline") {
  Turns turns;
  turns.run();
  turns.starts();
  const auto journal = turns.settings.directory / "journal.jsonl";
  const std::string text = read_file(journal);
  write_file(journal, text.substr(0, text.size() - 20));
  CHECK(second(turns.run()).rounds.size() == 3);
  CHECK(turns.starts() == "none again\ncheckpoint:full again\n");
}

TEST_CASE("a strategy that is added later is measured in turns with a new baseline") {
  Turns turns;
  turns.run();
  turns.starts();
  turns.settings.strategies.emplace_back("offload:stream");
  turns.settings.rounds = 2;
  const SweepRecordAndReport result = turns.run();
  CHECK(turns.starts() == "none again\noffload:stream\nnone again\noffload:stream again\n");
  CHECK(result.report.rows.at(0).measurement.rounds.size() == 3);  // it keeps its own rounds
  CHECK(result.report.rows.at(2).measurement.rounds.at(1).base_ms == 100);
}

TEST_CASE("the first strategy that works is the baseline if none runs out of memory") {
  Turns turns;
  turns.settings.strategies = {"none", "offload:stream", "checkpoint:full"};
  const SweepRecordAndReport result = turns.run("none=device_oom");
  CHECK(turns.starts() ==
        "inspect\nnone\noffload:stream\ncheckpoint:full\noffload:stream again\ncheckpoint:full again\n"
        "offload:stream again\ncheckpoint:full again\n");
  CHECK(second(result).rounds.at(2).base_ms == 110);
  CHECK(result.report.rows.at(2).measurement.rounds.at(2).base == "offload:stream");
  turns.run("none=device_oom");
  CHECK(turns.starts() == "");
}

TEST_CASE("a trial is measured again if the baseline is another strategy") {
  Turns turns;
  turns.settings.strategies = {"checkpoint:full"};
  turns.settings.rounds = 2;
  turns.run();
  turns.starts();
  turns.settings.strategies = {"checkpoint:full", "none"};
  const SweepRecordAndReport result = turns.run();
  CHECK(turns.starts() == "none\ncheckpoint:full again\nnone again\ncheckpoint:full again\n");
  CHECK(second(result).rounds.at(0).base == "none");
  CHECK(second(result).gradients.against == "");  // it wrote the reference
}

TEST_CASE("a trial that fails in a later round is failed with the round and runs no further round") {
  Turns turns;
  const SweepRecordAndReport result = turns.run("checkpoint:full again=crash");
  CHECK(turns.starts() == "inspect\nnone\ncheckpoint:full\nnone again\ncheckpoint:full again\nnone again\n");
  CHECK(second(result).outcome == TrialOutcome::crash);
  CHECK(second(result).reason.ends_with("(in round 2)"));
  CHECK(result.report.recommendation.strategy == "none");
}

TEST_CASE("a trial without effect gives the reason from the facts of its setting") {
  Turns turns;
  turns.settings.strategies = {"none", "offload:stream"};
  turns.settings.request.training.batch = 1;  // outputs of 512 KiB
  const SweepRecordAndReport result = turns.run("offload:stream=idle");
  CHECK(second(result).no_effect ==
        "equal to none: nothing was offloaded; every activation is below min=1MiB; min=256KiB would offload 8 MiB");
  CHECK(turns.run().report.rows.at(0).measurement.no_effect == "");
}

TEST_CASE("a composed strategy gives the reason why one of its parts has no effect") {
  Turns turns;
  turns.settings.strategies = {"none", "checkpoint:every=2", "checkpoint:every=2+offload:stream"};
  turns.settings.request.training.batch = 1;  // outputs of 512 KiB
  const SweepRecordAndReport result =
      turns.run("checkpoint:every=2=recomputes;checkpoint:every=2+offload:stream=recomputes");
  const result::TrialResultRow& row = result.report.rows.at(2);
  CHECK(row.measurement.no_effect ==
        "equal to checkpoint:every=2: nothing was offloaded; every activation is below min=1MiB; min=256KiB would "
        "offload 5 MiB");
  CHECK_FALSE(row.pareto);
  CHECK_FALSE(row.recommended);
  CHECK(second(result).no_effect == "");
}

TEST_CASE("a cap or budget below the parameters is refused before any trial with the minimum") {
  for (const bool budget : {false, true}) {
    Turns turns;
    (budget ? turns.settings.budget_bytes : turns.settings.request.training.memory_cap_bytes) = 3999;
    const std::string text =
        std::string(budget ? "--budget" : "--memory-cap") +
        ": 3.91 KiB is less than the parameters alone, which take 3.91 KiB under every strategy "
        "but those with states=host; a step holds 15.62 KiB with gradients and the states of adamw, "
        "plus activations; try --strategy checkpoint:full+states=host";
    CHECK_THROWS_WITH_AS(turns.run(), doctest::Contains(text.c_str()), UsageError);
    CHECK(turns.starts() == "inspect\n");
  }
}

TEST_CASE("a cap below the parameters is no obstacle to a strategy that offloads them") {
  Turns turns;
  turns.settings.request.training.memory_cap_bytes = 3999;
  turns.settings.strategies = {"checkpoint:full+states=host"};
  CHECK(turns.run().report.rows.size() == 1);
}

TEST_CASE("the load of other processes is measured and does not exceed the cores") {
  const OtherProcessCpuLoadMonitor watch;
  CHECK(usable_cores() >= 1);
  CHECK(load_average() >= 0);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < until) {
  }
  CHECK(watch.other_cores() >= 0);
  CHECK(watch.other_cores() <= usable_cores() + 0.5);
  CHECK(gpu_processes("cpu") == 0);
}

}  // namespace memtune::sweep_rounds_test
