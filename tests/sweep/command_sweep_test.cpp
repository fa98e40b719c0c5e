// Sweeps of a training command, for which a shell script stands in: which variants start, which results are kept, and
// what is reported.
#include "core/sweep/commands/command_sweep.h"

#include <doctest/doctest.h>

#include "core/answer/report/html/html.h"
#include "core/answer/report/text/json.h"
#include "core/answer/report/text/table.h"
#include "core/base/error.h"
#include "tests/sweep/command_bench.h"

namespace memtune::command_sweep_test {

using namespace memtune;
using namespace memtune::sweep;
using namespace std::chrono_literals;
using memtune::result::TrialOutcome;

TEST_CASE("variants of a command take turns from the first on and the fastest is recommended") {
  CommandBench bench(kTrains);
  bench.settings.rounds = 2;
  bench.settings.model = "train.sh";
  const SweepRecordAndReport result = bench.run();
  CHECK(bench.starts() == "20\n10\n30\n20\n10\n30\n");
  CHECK(bench.listener.runs == 6);
  REQUIRE(result.report.rows.size() == 3);
  CHECK(result.report.rows[0].measurement.strategy == "ms=20");
  CHECK(result.report.rows[0].base);
  CHECK(result.report.reference == "ms=20");
  CHECK(row(result, "ms=10").measurement.rounds.size() == 2);
  CHECK(row(result, "ms=10").measurement.rounds[1].base == "ms=20");
  CHECK(row(result, "ms=10").measurement.step_ms.median == 15);
  CHECK(result.report.recommendation.strategy == "ms=10");
  CHECK(row(result, "ms=10").command == std::vector<std::string>{"sh", bench.file(), "10"});
  CHECK(result.report.origin.torch == "2.11");
  CHECK(result.report.settings == "5 measured steps after 2 warm-up steps in each of 2 rounds");
}

TEST_CASE("a variant whose tensors have no gradient is never the baseline") {
  const std::string ungraded =
      R"([ $1 != 20 ] || echo '{"record": "gradients", "trained": 9, "without": 8, "names": ["a"]}' >>$MEMTUNE_ATTACH/$$.jsonl)";
  CommandBench bench("train $$ $1 1 7; " + ungraded + "; finished $$");
  bench.settings.rounds = 3;
  const SweepRecordAndReport result = bench.run();
  CHECK(result.report.reference == "ms=10");
  for (const char* name : {"ms=10", "ms=30"}) {
    CHECK_FALSE(row(result, name).measurement.losses.changed);
    for (size_t round = 1; round < 3; ++round) CHECK(row(result, name).measurement.rounds[round].base == "ms=10");
  }
  CHECK(row(result, "ms=20").measurement.losses.without_gradient == 8);
  CHECK(row(result, "ms=20").base);  // what the user has now
  CHECK(result.report.recommendation.strategy == "ms=10");
}

TEST_CASE("losses of values that may change the training are not compared") {
  CommandPlaceholderSweepAxis axis = parse_axis("ms=20;10");
  const auto losses = [&](bool allowed) {
    CommandBench bench(
        R"(train $$ 1 1 7; [ $1 = 20 ] || sed -i 's/"loss": \[/"loss": [1/' $MEMTUNE_ATTACH/$$.jsonl; finished $$)");
    axis.changes_training = allowed;
    bench.settings.sweep.variants = expand({{"", {"sh", bench.file(), "{ms}"}, "", ""}}, {axis});
    const SweepRecordAndReport result = bench.run();
    const bool noted = std::ranges::any_of(result.report.notes, [](const std::string& note) {
      return note == "the losses of ms=10 are not compared with those of ms=20: --allow lets them train differently";
    });
    CHECK(noted == allowed);
    return row(result, "ms=10").measurement.losses;
  };
  CHECK(losses(false).changed);
  CHECK_FALSE(losses(true).compared);
}

TEST_CASE("the word {folder} is a new folder at each start and a note says so if an earlier start may be in the way") {
  const auto outcomes = [&](const std::string& word, ptrdiff_t noted) {
    CommandBench bench(std::string("mkdir -p $2; set -e; mkdir $2/config; set +e; ") +
                       kTrains);  // fails if it is there
    bench.settings.rounds = 2;
    bench.settings.sweep.variants = expand({{"", {"sh", bench.file(), "{ms}", word}, "", ""}}, {parse_axis("ms=1;2")});
    const SweepRecordAndReport result = bench.run();
    const auto says = [](const std::string& note) { return note.find("{folder} in the command") != std::string::npos; };
    CHECK(std::ranges::count_if(result.report.notes, says) == noted);
    CHECK(row(result, "ms=1").command.back() == word);
    return std::pair(row(result, "ms=1").measurement.rounds.size(), row(result, "ms=2").measurement.outcome);
  };
  CHECK(outcomes("{folder}", 0) == std::pair(size_t{2}, TrialOutcome::ok));
  CHECK(outcomes("out", 1).second == TrialOutcome::error);
}

TEST_CASE("a repeated sweep of a command starts nothing and gives the same report") {
  CommandBench bench(kTrains);
  const SweepRecordAndReport first = bench.run();
  bench.starts();
  const SweepRecordAndReport second = bench.run();
  CHECK(bench.starts() == "");
  CHECK(bench.listener.reused == 3);
  CHECK(report::to_json_text(second.report) == report::to_json_text(first.report));
  const RunDirectory directory(bench.settings.directory);
  CHECK(report::to_json_text(make_report(directory, directory.read_record())) == report::to_json_text(first.report));
}

TEST_CASE("trials of another PyTorch minor release are not added to those of a folder") {
  CommandBench bench(kTrains, "ms=20");
  bench.run();
  bench.settings.rounds = 2;
  // The file that the command names is the same, only the PyTorch that it runs differs.
  const test::Variable newer("RECORDED_TORCH", "2.15.0");
  CHECK_THROWS_WITH_AS(bench.run(),
                       ("trials in " + bench.settings.directory.string() +
                        " are of PyTorch 2.11, this one is of 2.15: sweep into another folder with --out")
                           .c_str(),
                       UsageError);
}

TEST_CASE("a change of a file that the command names starts new trials") {
  CommandBench bench(kTrains);
  bench.run();
  bench.starts();
  bench.write(std::string(kTrains) + "; true");
  bench.run();
  CHECK(bench.starts() == "20\n10\n30\n");
}

TEST_CASE("a change of a file that the command itself writes starts no trial") {
  CommandBench bench(std::string("echo more >>$2; ") + kTrains, "ms=20");
  bench.settings.sweep.variants[0].command.push_back((bench.folder.path / "log").string());
  bench.run();
  bench.starts();
  bench.run();
  CHECK(bench.starts() == "");
}

TEST_CASE("other steps or another memory cap or PyTorch environment give other trials") {
  CommandBench bench(kTrains, "ms=20");
  bench.run();
  bench.starts();
  const auto runs_again = [&] {
    bench.run();
    return bench.starts() == "20\n";
  };
  CHECK_FALSE(runs_again());
  bench.settings.sweep.memory_cap_bytes = 1 << 30;
  CHECK(runs_again());
  bench.settings.sweep.steps = 4;
  CHECK(runs_again());
  const test::Variable allocator("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync");
  CHECK(runs_again());
}

TEST_CASE("a failed variant is a row with its reason and the first that worked is the baseline") {
  CommandBench bench(std::string("[ $1 != 20 ] || { echo no such model; exit 3; }; ") + kTrains);
  const SweepRecordAndReport result = bench.run();
  CHECK(row(result, "ms=20").measurement.outcome == TrialOutcome::error);
  CHECK(row(result, "ms=20").measurement.reason.ends_with("last lines of its log: no such model"));
  CHECK(result.report.reference == "ms=10");
  CHECK(result.report.recommendation.strategy == "ms=10");
  CHECK(result.report.recommendation.reason.find("; ms=20 ends in error") != std::string::npos);
}

TEST_CASE("a variant with other losses is flagged in table and page and JSON and not recommended") {
  CommandBench bench(
      "attach=$MEMTUNE_ATTACH; MEMTUNE_ATTACH=.; train $$ $1 1 7; MEMTUNE_ATTACH=$attach; first=1.5; "
      "[ $1 != 10 ] || first=9; sed \"s/.1\\.5./[$first]/\" $$.jsonl >$attach/$$.jsonl; finished $$");
  const SweepRecordAndReport result = bench.run();
  const result::TrialMeasurement& other = row(result, "ms=10").measurement;
  REQUIRE(other.outcome == TrialOutcome::ok);
  CHECK(other.losses.changed);
  CHECK(other.losses.against == "ms=20");
  CHECK_FALSE(row(result, "ms=30").measurement.losses.changed);
  CHECK(row(result, "ms=30").measurement.losses.compared);
  CHECK(result.report.recommendation.strategy == "ms=20");
  for (const std::string& told : {report::table(result.report, {}), report::html(result.report, {})}) {
    CHECK(told.find("changed") != std::string::npos);
    CHECK(told.find("ms=10 trains differently from ms=20") != std::string::npos);
  }
  CHECK(report::to_json_text(result.report).find("\"changed\": true") != std::string::npos);
}

TEST_CASE("combinations run after their parts in the first round and in the expected order") {
  CommandBench bench("[ $1 != 90 ] || { echo no such package; exit 3; }; " + std::string(kTrains));
  std::vector<CommandVariant>& variants = bench.settings.sweep.variants;
  const auto add = [&](const std::string& name, int ms, std::vector<std::string> parts) {
    variants.push_back({name, {"sh", bench.file(), std::to_string(ms)}, "", "", "own", std::move(parts), ""});
  };
  variants.clear();
  add("own", 40, {});
  add("full+slow", 70, {"full", "slow"});
  add("full+fast", 35, {"full", "fast"});
  add("slow", 60, {});
  add("full", 50, {});
  add("fast", 30, {});
  add("broken", 90, {});
  add("full+broken", 95, {"full", "broken"});
  bench.settings.rounds = 2;
  const SweepRecordAndReport result = bench.run();
  CHECK(bench.starts() == "40\n60\n50\n30\n90\n35\n70\n40\n60\n50\n30\n35\n70\n");
  CHECK(row(result, "full+broken").measurement.outcome == TrialOutcome::skipped);
  CHECK(row(result, "full+broken").measurement.reason.starts_with("broken alone ended in error: "));
  const RunDirectory directory(bench.settings.directory);
  CHECK(report::to_json_text(make_report(directory, directory.read_record())) == report::to_json_text(result.report));
  bench.run();
  CHECK(bench.starts() == "");
  bench.settings.dry_run = true;
  const std::vector<SweepTrialEntry> listed = bench.run().record.trials;
  CHECK(listed.size() == 8);
  CHECK(listed.back().notes == std::vector<std::string>{"behind the single changes, by what they show"});
}

TEST_CASE("a variant beyond the time limit is a skipped row and a later sweep runs it") {
  CommandBench bench("sleep 1.4; " + std::string(kTrains), "ms=20;10;30;40");
  bench.settings.rounds = 2;
  bench.settings.time_limit = 4000ms;
  const auto began = std::chrono::steady_clock::now();
  const SweepRecordAndReport result = bench.run();
  CHECK(std::chrono::steady_clock::now() - began < 8s);
  CHECK_FALSE(result.interrupted);
  CHECK(bench.starts() == "20\n10\n");
  REQUIRE(result.report.rows.size() == 4);
  CHECK(row(result, "ms=10").measurement.outcome == TrialOutcome::ok);
  CHECK(row(result, "ms=40").measurement.outcome == TrialOutcome::skipped);
  CHECK(row(result, "ms=40").measurement.reason == "not reached within the time limit of 4 s");
  CHECK(result.report.recommendation.reason.ends_with(
      "; of what was measured: 2 of 4 trials were not reached within the time limit"));
  bench.settings.time_limit = 0ms;
  bench.settings.rounds = 1;
  CHECK(bench.run().report.recommendation.strategy == "ms=10");
  CHECK(bench.starts() == "20\n30\n40\n");  // the baseline again, with the variants that were left
}

TEST_CASE("a variant that the time limit ends is skipped and not failed") {
  CommandBench bench("[ $1 = 20 ] || sleep 60; " + std::string(kTrains));
  bench.settings.time_limit = 500ms;
  const SweepRecordAndReport result = bench.run();
  CHECK(row(result, "ms=20").measurement.outcome == TrialOutcome::ok);
  CHECK(row(result, "ms=10").measurement.outcome == TrialOutcome::skipped);
  CHECK(row(result, "ms=30").measurement.outcome == TrialOutcome::skipped);
}

TEST_CASE("a variant gets the path of its own config file") {
  CommandBench bench(
      "cat $1 >seen; echo $MEMTUNE_ATTACH_STEPS $MEMTUNE_ATTACH_CAP >>told; train $$ 20 1 7; finished $$");
  bench.settings.sweep.variants = expand({{"own", {"sh", bench.file(), "{config}"}, "mine.yaml", "a: 1\n"}}, {});
  bench.settings.sweep.memory_cap_bytes = 4096;
  bench.settings.sweep.skipped = {{"offload", "does nothing here"}};
  bench.settings.rounds = 2;
  const SweepRecordAndReport result = bench.run();
  CHECK(test::slurp(bench.folder.path / "seen") == "a: 1\n");
  CHECK(test::slurp(bench.folder.path / "told") == "2+5+2 4096\n2+5+0 4096\n");  // only the first round is traced
  CHECK(row(result, "own").command.back() == (bench.settings.directory / "trials/1-own/config/mine.yaml").string());
  CHECK(row(result, "own").config == row(result, "own").command.back());
  CHECK(row(result, "offload").measurement.outcome == TrialOutcome::skipped);
  CHECK(row(result, "offload").measurement.reason == "does nothing here");
  CHECK(result.report.budget_bytes == 4096);
}

TEST_CASE("a later round of an earlier sweep's trial starts with the files of this sweep") {
  CommandBench bench(
      "cat $1 \"$MEMTUNE_ATTACH_PLAN\" >>seen; train $$ 20 1 7; "
      "echo '{\"record\": \"plan\", \"applied\": true}' >>$MEMTUNE_ATTACH/$$.jsonl; finished $$");
  bench.settings.sweep.variants = expand({{"own", {"sh", bench.file(), "{config}"}, "mine.yaml", "a: 1\n"}}, {});
  bench.settings.sweep.variants[0].planned = true;
  bench.settings.sweep.variants[0].plan_text = "PLAN\n";
  bench.run();
  const std::filesystem::path trial = bench.settings.directory / "trials/1-own";
  for (const char* file : {"config/mine.yaml", "memtune_plan.py"}) std::ofstream(trial / file) << "other\n";
  bench.settings.rounds = 2;
  bench.run();
  CHECK(bench.listener.runs == 1);
  CHECK(test::slurp(bench.folder.path / "seen") == "a: 1\nPLAN\na: 1\nPLAN\n");
}

TEST_CASE("a missing program is refused before a folder is created") {
  CommandBench bench(kTrains);
  bench.settings.sweep.variants = {{"own", {"no-such-program-anywhere"}, "", ""}};
  CHECK_THROWS_WITH_AS(bench.run(), "cannot run 'no-such-program-anywhere': no such program", UsageError);
  CHECK_FALSE(std::filesystem::exists(bench.settings.directory));
}

TEST_CASE("a note of all trials is reported once and a note of some with their names") {
  CommandBench bench("train $$ $1 1 7; finished $$; [ $1 != 10 ] || exit 3");
  const SweepRecordAndReport result = bench.run();
  const auto has = [&](const std::string& text) { return std::ranges::count(result.report.notes, text) == 1; };
  CHECK(
      has("on a CPU the peak of a command is its process's resident memory, the interpreter and its libraries "
          "included"));
  CHECK(has("ms=10: after the measured steps it ended with exit code 3"));
}

}  // namespace memtune::command_sweep_test
