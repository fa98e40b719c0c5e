// Sweeps of a command with variants that a callback chooses, some of them under a plan in Python.
#include <doctest/doctest.h>
#include <signal.h>

#include "core/answer/report/text/json.h"
#include "core/measure/process/interrupt.h"
#include "tests/sweep/command_bench.h"

namespace memtune::planned_commands_test {

using namespace memtune;
using namespace memtune::sweep;
using memtune::result::TrialOutcome;

namespace {

// Chooses one list of `choices` per call. It adds a variant that runs under a plan.
struct Chosen {
  CommandBench bench;
  std::vector<std::vector<std::string>> choices;
  std::string plan = "PLAN = 1\n";
  size_t calls = 0;

  explicit Chosen(const std::string& script) : bench(script) {
    bench.settings.choose = [this](std::span<const SweepTrialAndMeasurement>, CommandSweepSettingsAndVariants& sweep) {
      if (calls == 0) {
        sweep.native = "native";
        CommandVariant variant = sweep.variants.front();
        variant.name = "plan:1 GiB";
        variant.planned = true;
        variant.plan_text = plan;
        sweep.variants.push_back(variant);
      }
      return std::optional(calls < choices.size() ? choices[calls++] : std::vector<std::string>());
    };
  }
  SweepRecordAndReport run() {
    calls = 0;
    return bench.run();
  }
};

// Logs the plan that it runs under and reports that the plan is applied.
constexpr char kPlanned[] =
    "[ -z \"$MEMTUNE_ATTACH_PLAN\" ] || cat \"$MEMTUNE_ATTACH_PLAN\" >>starts; train $$ $1 1 7; "
    "[ -z \"$MEMTUNE_ATTACH_PLAN\" ] || echo '{\"record\": \"plan\", \"applied\": true}' >>$MEMTUNE_ATTACH/$$.jsonl; "
    "finished $$";

}  // namespace

TEST_CASE("only chosen variants run and the report has those with and without a plan") {
  Chosen chosen(kPlanned);
  chosen.choices = {{"ms=20"}, {"ms=10", "plan:1 GiB"}};
  const SweepRecordAndReport result = chosen.run();
  CHECK(chosen.bench.starts() == "20\n10\n20\nPLAN = 1\n");
  REQUIRE(result.report.rows.size() == 3);
  const result::TrialResultRow& planned = row(result, "plan:1 GiB");
  CHECK(planned.measurement.outcome == TrialOutcome::ok);
  CHECK(planned.measurement.losses.compared);
  CHECK(test::slurp(planned.python) == "PLAN = 1\n");
  CHECK(row(result, "ms=10").python == "");
  CHECK(result.report.planned);
  const RunDirectory directory(chosen.bench.settings.directory);
  CHECK(report::to_json_text(make_report(directory, directory.read_record())) == report::to_json_text(result.report));
}

TEST_CASE("another plan is another trial and a plan with another comment is not") {
  Chosen chosen(kPlanned);
  chosen.choices = {{"ms=20", "plan:1 GiB"}};
  chosen.run();
  chosen.bench.starts();
  chosen.plan = "# measured on a Monday\nPLAN = 1\n";
  chosen.run();
  CHECK(chosen.bench.starts() == "");
  chosen.plan = "PLAN = 2\n";
  chosen.run();
  CHECK(chosen.bench.starts() == "20\n20\nPLAN = 2\n");
}

TEST_CASE("a variant that trains without its plan or cannot apply it is an error") {
  Chosen chosen(kTrains);
  chosen.choices = {{"ms=20", "plan:1 GiB"}};
  CHECK(row(chosen.run(), "plan:1 GiB").measurement.reason ==
        "the plan cannot be applied: a process trained without it");
  Chosen refused(
      "[ -z \"$MEMTUNE_ATTACH_PLAN\" ] || { echo '{\"record\": \"plan\", \"applied\": false, \"reason\": \"it is "
      "compiled\"}' >>$MEMTUNE_ATTACH/$$.jsonl; exit 0; }; " +
      std::string(kTrains));
  refused.choices = {{"ms=20", "plan:1 GiB"}};
  const SweepRecordAndReport result = refused.run();
  CHECK(row(result, "plan:1 GiB").measurement.outcome == TrialOutcome::error);
  CHECK(row(result, "plan:1 GiB").measurement.reason == "the plan cannot be applied: it is compiled");
  CHECK(result.report.recommendation.strategy == "ms=20");
}

TEST_CASE("a signal while variants are chosen ends the sweep and keeps its results") {
  Chosen chosen(kPlanned);
  chosen.choices = {{"ms=20"}, {}};
  const auto choose = chosen.bench.settings.choose;
  chosen.bench.settings.choose = [&](std::span<const SweepTrialAndMeasurement> tried,
                                     CommandSweepSettingsAndVariants& sweep) {
    if (!tried.empty()) {
      { const process::InterruptScope within; }  // as a sweep within the callback has
      ::raise(SIGINT);
    }
    return choose(tried, sweep);
  };
  const SweepRecordAndReport result = chosen.run();
  CHECK(result.interrupted);
  CHECK(result.report.rows.size() == 1);
}

}  // namespace memtune::planned_commands_test
