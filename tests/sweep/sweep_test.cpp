// The loop over trials: which run, which are kept, and which run again.
#include "core/sweep/loop/sweep.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/plan/request/reference_file.h"
#include "core/plan/rules/strategy.h"
#include "core/sweep/loop/inspection.h"
#include "tests/sweep/sweep_bench.h"

namespace memtune::sweep_test {

using namespace memtune;
using namespace memtune::sweep;
using memtune::result::TrialOutcome;

namespace {

struct Bench : test::SweepBench {
  Bench() : SweepBench({"checkpoint:full", "none", "offload:stream"}) {}
};

}  // namespace

TEST_CASE("the baseline runs first and the others follow in the given order") {
  Bench bench;
  const SweepRecordAndReport result = bench.run();
  CHECK(bench.starts() == "inspect\nnone\ncheckpoint:full\noffload:stream\n");
  REQUIRE(result.report.rows.size() == 3);
  CHECK(result.report.rows[1].measurement.strategy == "checkpoint:full");
  CHECK(result.report.rows[1].measurement.gradients.against == "none");
  CHECK(result.report.recommendation.strategy == "none");
  CHECK_FALSE(result.interrupted);
}

TEST_CASE("the process of each trial is started as the one before it ends") {
  Bench bench;
  bench.run("later=logged");
  CHECK(bench.starts() == "inspect\nwaited\nnone\nwaited\ncheckpoint:full\nwaited\noffload:stream\n");
  Bench ranks;
  ranks.settings.request.training.ranks = 2;
  ranks.run("later=logged");
  CHECK(ranks.starts().find("waited") == std::string::npos);
}

TEST_CASE("a repeated sweep runs no trial and no inspection") {
  Bench bench;
  const SweepRecordAndReport first = bench.run();
  bench.starts();
  const SweepRecordAndReport second = bench.run();
  CHECK(bench.starts() == "");
  CHECK(second.report.recommendation.reason == first.report.recommendation.reason);
  CHECK(second.report.rows.size() == 3);
}

TEST_CASE("a trial without an end in the journal runs again in its own folder") {
  Bench bench;
  bench.run();
  bench.starts();
  const auto journal = bench.settings.directory / "journal.jsonl";
  const std::string text = read_file(journal);
  write_file(journal, text.substr(0, text.size() - 20));  // as if cut in the last record
  const SweepRecordAndReport result = bench.run();
  CHECK(bench.starts() == "none again\noffload:stream\n");
  CHECK(result.report.rows[2].measurement.plan == "trials/3-offload-stream/plan.json");
}

TEST_CASE("a trial with an unreadable measurement runs again") {
  Bench bench;
  bench.run();
  bench.starts();
  std::ofstream(bench.settings.directory / "trials/2-checkpoint-full/measurement.json") << "{";
  bench.run();
  CHECK(bench.starts() == "none again\ncheckpoint:full\n");
}

TEST_CASE("the baseline runs again if its reference is missing") {
  Bench bench;
  bench.run();
  bench.starts();
  std::filesystem::remove(bench.reference());
  bench.run();
  CHECK(bench.starts() == "none\n");
}

TEST_CASE("the baseline runs again if its reference is truncated") {
  Bench bench;
  bench.run("offload:stream=differs");
  bench.starts();
  const std::filesystem::path reference = bench.reference();
  std::filesystem::resize_file(reference, std::filesystem::file_size(reference) - 1);
  bench.run();
  CHECK(bench.starts() == "none\n");
  CHECK(plan::is_whole_reference(reference));
}

TEST_CASE("the baseline runs again if one bit of its reference has changed") {
  Bench bench;
  bench.run("offload:stream=differs");
  bench.starts();
  const std::filesystem::path reference = bench.reference();
  std::string content = read_file(reference);
  content[plan::kFirstGradient] ^= 1;  // of a gradient, which possibly no trial reads
  write_file(reference, content);
  bench.run();
  CHECK(bench.starts() == "none\n");
  CHECK(plan::is_whole_reference(reference));
}

TEST_CASE("the baseline writes its gradients when those of a trial have other bits") {
  Bench bench;
  const SweepRecordAndReport result = bench.run("checkpoint:full=differs");
  CHECK(bench.starts().find("none\ncheckpoint:full\nnone gradients\ncheckpoint:full\n") != std::string::npos);
  CHECK(result.report.rows[1].measurement.outcome == TrialOutcome::mismatch);
  CHECK_FALSE(result.report.rows[1].measurement.gradients.undecided);
  CHECK(plan::read_reference(bench.reference()).has_gradients);
}

TEST_CASE("a trial stays undecided if the baseline fails at writing its gradients") {
  Bench bench;
  const SweepRecordAndReport result = bench.run("checkpoint:full=differs;none gradients=crash");
  CHECK(result.report.rows[1].measurement.outcome == TrialOutcome::error);
  CHECK(result.report.rows[1].measurement.gradients.undecided);
}

TEST_CASE("fields of a later version are ignored in a sweep folder") {
  Bench bench;
  bench.run();
  const RunDirectory directory(bench.settings.directory);
  const SweepJsonSettingsFactsAndTrials now = directory.read_record();
  nlohmann::json later = nlohmann::json::parse(read_file(directory / "sweep.json"));
  later["later"] = later["request"]["later"] = later["request"]["training"]["later"] = 1;
  later["facts"]["later"] = later["facts"]["ops"][0]["later"] = later["trials"][0]["later"] = 1;
  write_file(directory / "sweep.json", later.dump());
  const SweepJsonSettingsFactsAndTrials then = directory.read_record();
  CHECK(nlohmann::json(then.facts.program) == nlohmann::json(now.facts.program));
  CHECK(then.trials.size() == now.trials.size());
}

TEST_CASE("a sweep folder of a later format is refused with its number and stays unchanged") {
  Bench bench;
  bench.run();
  bench.starts();
  const RunDirectory directory(bench.settings.directory);
  nlohmann::json later = nlohmann::json::parse(read_file(directory / "sweep.json"));
  later["format"] = 3;
  later["version"] = "9.9";
  write_file(directory / "sweep.json", later.dump());
  const std::string refusal = (directory / "sweep.json").string() + " has format 3, of memtune 9.9; this is memtune ";
  CHECK_THROWS_WITH_AS(directory.read_record(), doctest::Contains(refusal.c_str()), UsageError);
  CHECK_THROWS_WITH_AS(bench.run(), doctest::Contains(refusal.c_str()), UsageError);
  CHECK(bench.starts() == "");
  CHECK(read_file(directory / "sweep.json") == later.dump());
}

TEST_CASE("other settings give other trials and the old ones stay") {
  Bench bench;
  bench.run();
  bench.starts();
  bench.settings.request.training.steps = 3;
  const SweepRecordAndReport result = bench.run();
  CHECK(bench.starts() == "inspect\nnone\ncheckpoint:full\noffload:stream\n");
  CHECK(result.report.rows.size() == 3);
  CHECK(result.report.rows[0].measurement.step_ms.samples.size() == 3);
  bench.settings.request.training.steps = 5;
  bench.run();
  CHECK(bench.starts() == "");
}

TEST_CASE("failures are rows with reasons and the sweep continues") {
  Bench bench;
  const SweepRecordAndReport result = bench.run("none=device_oom;checkpoint:full=crash");
  const auto& rows = result.report.rows;
  CHECK(rows[0].measurement.outcome == TrialOutcome::device_oom);
  CHECK(rows[1].measurement.outcome == TrialOutcome::crash);
  CHECK(rows[1].measurement.trace == "");
  CHECK(rows[2].measurement.outcome == TrialOutcome::ok);
  CHECK(result.report.recommendation.strategy == "offload:stream");
  bench.starts();
  bench.run();
  CHECK(bench.starts() == "");
  bench.settings.reuse = EarlierTrialReusePolicy::worked;
  CHECK(bench.run().report.recommendation.strategy == "none");
  CHECK(bench.starts() == "none\ncheckpoint:full\noffload:stream again\n");  // now compared with none
}

TEST_CASE("all invalid strategies are reported at once and nothing is created or run") {
  Bench bench;
  bench.settings.strategies = {"none", "checkpoint:every=0", "checkpoint:every=2", "offlaod:sync"};
  try {
    bench.run();
    FAIL("two bad strategies went through");
  } catch (const UsageError& error) {
    const std::string message = error.what();
    CHECK(message.find("every") != std::string::npos);
    CHECK(message.find("offlaod") != std::string::npos);
  }
  CHECK(bench.starts() == "");
  CHECK_FALSE(std::filesystem::exists(bench.settings.directory));
}

TEST_CASE("a strategy that the model cannot have is refused after the inspection and no folder stays") {
  Bench bench;
  bench.settings.strategies = {"none", "checkpoint:every=5"};  // the fake model has four blocks
  CHECK_THROWS_AS(bench.run(), UsageError);
  CHECK(bench.starts() == "inspect\n");
  CHECK_FALSE(std::filesystem::exists(bench.settings.directory));
}

TEST_CASE("a model that the trial rejects is a usage error and a failed inspection is not") {
  Bench bench;
  CHECK_THROWS_WITH_AS(bench.run("inspect=usage"), "the model rejects the input", UsageError);
  CHECK_THROWS_WITH_AS(bench.run("none=usage"), "the model rejects the input", UsageError);
  CHECK_THROWS_WITH_AS(bench.run("inspect=error"), "cannot inspect the model: an unplanned error", Error);
}

TEST_CASE("a usage error after a trial has worked fails only its own row") {
  Bench bench;
  const SweepRecordAndReport result = bench.run("offload:stream=usage");
  CHECK(result.report.rows[2].measurement.outcome == TrialOutcome::error);
  CHECK(result.report.rows[2].measurement.reason == "the model rejects the input");
}

TEST_CASE("each batch size has its own baseline") {
  Bench bench;
  bench.settings.strategies = {"none", "checkpoint:full"};
  bench.settings.batches = {1, 2};
  const SweepRecordAndReport result = bench.run();
  CHECK(bench.starts() == "inspect\ninspect\nnone\ncheckpoint:full\nnone\ncheckpoint:full\n");
  REQUIRE(result.report.rows.size() == 4);
  CHECK(result.report.rows[2].batch == 2);
  CHECK_FALSE(result.report.rows[2].measurement.gradients.compared);
  CHECK(result.report.rows[3].measurement.gradients.compared);
  CHECK(result.report.rows[3].measurement.plan == "trials/4-checkpoint-full-b2/plan.json");
}

namespace {

plan::Plan kept_plan(const Bench& bench, const std::string& trial) {
  const auto plan = read_plan(bench.settings.directory / "trials" / trial / "plan.json");
  REQUIRE(plan);
  return *plan;
}

}  // namespace

TEST_CASE("each batch size has its own plans because a larger batch has larger tensors") {
  Bench bench;
  bench.settings.strategies = {"offload:stream,fraction=0.5"};
  bench.settings.batches = {1, 4};
  bench.run();
  CHECK(kept_plan(bench, "1-offload-stream-fraction-0-5-b1").keeps_everything());
  CHECK(kept_plan(bench, "2-offload-stream-fraction-0-5-b4").places(plan::TensorPlacement::host));
  bench.starts();
  bench.settings.batches = {4, 1};
  bench.run();
  CHECK(bench.starts() == "");  // both are known in any order
}

TEST_CASE("a batch size that cannot be inspected uses the plans of the first and a note says so") {
  Bench bench;
  bench.settings.strategies = {"none", "checkpoint:full"};
  bench.settings.batches = {1, 3};
  const SweepRecordAndReport result = bench.run("inspect-b3=usage");
  CHECK(result.report.rows.size() == 4);
  CHECK(
      bench.listener.notes ==
      std::vector<std::string>{
          "the model cannot be inspected with batch 3 (the model rejects the input): plans are made as with batch 1"});
}

TEST_CASE("a single batch size is a setting and not an axis") {
  Bench bench;
  bench.settings.batches = {2};
  CHECK_FALSE(bench.run().report.rows[0].batch.has_value());
}

TEST_CASE("the memory cap is the budget if none is given") {
  Bench bench;
  bench.settings.request.training.memory_cap_bytes = int64_t{10} << 30;
  CHECK(bench.run().report.recommendation.strategy == "checkpoint:full");
}

TEST_CASE("under a budget on a GPU all but the baseline run as on a device of that size") {
  Bench bench;
  bench.settings.request.training.device = "cuda";
  bench.settings.budget_bytes = int64_t{10} << 30;
  std::vector<int64_t> caps;
  for (const auto& row : bench.run().report.rows) caps.push_back(row.measurement.cap_bytes);
  CHECK(caps == std::vector<int64_t>{0, int64_t{10} << 30, int64_t{10} << 30});
  bench.settings.budget_bytes = int64_t{11} << 30;  // other limits are other trials
  bench.starts();
  bench.run();
  CHECK(bench.starts() == "none again\ncheckpoint:full\noffload:stream\n");  // the baseline has run
  Bench on_cpu;
  on_cpu.settings.budget_bytes = int64_t{10} << 30;
  for (const auto& row : on_cpu.run().report.rows) CHECK(row.measurement.cap_bytes == 0);
}

TEST_CASE("a trial that runs out of memory in pieces runs again with expandable segments") {
  Bench bench;
  bench.settings.rounds = 2;
  const SweepRecordAndReport result = bench.run("checkpoint:full=in-pieces;checkpoint:full again=in-pieces");
  const result::TrialMeasurement& full = result.report.rows[1].measurement;
  CHECK(full.outcome == TrialOutcome::ok);
  CHECK(full.allocator == "expandable_segments:True");
  CHECK(full.rounds.size() == 2);
  CHECK(result.report.rows[0].measurement.allocator == "");
  CHECK(bench.starts() ==
        "inspect\nnone\ncheckpoint:full\ncheckpoint:full\noffload:stream\nnone again\n"
        "checkpoint:full again\noffload:stream again\n");
  Bench set;
  const test::Variable environment("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False");
  CHECK(set.run("checkpoint:full=in-pieces").report.rows[1].measurement.outcome == TrialOutcome::device_oom);
}

TEST_CASE("8-bit AdamW takes one byte per element and moment and float32 for embeddings") {
  plan::ProgramFacts facts;
  facts.parameters = 1000;
  facts.parameter_bytes = facts.trained_bytes = 4000;
  plan::TrainingSettings training;
  training.optimizer = "adamw_8bit";
  CHECK(state_bytes(training, facts) == 2 * 4000 + 2 * 1000);
  facts.trained_embeddings = 100;
  CHECK(state_bytes(training, facts) == 2 * 4000 + 2 * 900 + 8 * 100);
}

TEST_CASE("32-bit AdamW takes eight bytes per trained element whatever its dtype") {
  plan::ProgramFacts facts;
  facts.parameters = 1000;
  facts.parameter_bytes = facts.trained_bytes = 2000;
  plan::TrainingSettings training;
  training.optimizer = "adamw_32bit";
  CHECK(state_bytes(training, facts) == 2 * 2000 + 8 * 1000);
}

TEST_CASE("a dry run lists the trials and leaves nothing") {
  Bench bench;
  bench.settings.dry_run = true;
  CHECK(bench.run().record.trials.size() == 3);
  CHECK_FALSE(std::filesystem::exists(bench.settings.directory));
}

TEST_CASE("a second sweep in a folder in use is refused") {
  Bench bench;
  bench.run();
  const FileLock holder(bench.settings.directory / "lock");
  CHECK_THROWS_AS(bench.run(), UsageError);
}

namespace {

plan::HandWrittenPlanFile plan_file(const Bench& bench, const std::string& name, const std::string& text) {
  std::ofstream(bench.folder.path / name) << text;
  return plan::HandWrittenPlanFile(bench.folder.path / name);
}

const std::string kPlan = R"({"version": 1, "rules": [{"op": "silu", "outputs": "host"}]})";

}  // namespace

TEST_CASE("a strategy in two spellings is one trial and one note says so") {
  Bench bench;
  bench.settings.strategies = {"offload:stream, keep_last = 2,fraction=0.40", "none",
                               "offload:stream,fraction=0.4,keep_last=2", "none"};
  const SweepRecordAndReport result = bench.run();
  CHECK(bench.starts() == "inspect\nnone\noffload:stream,fraction=0.4,keep_last=2\n");
  CHECK(bench.listener.notes ==
        std::vector<std::string>{"'offload:stream, keep_last = 2,fraction=0.40' and 'offload:stream,fraction=0.4,"
                                 "keep_last=2' are one trial: offload:stream,fraction=0.4,keep_last=2"});
  CHECK(result.record.trials[1].strategy == "offload:stream,fraction=0.4,keep_last=2");
  CHECK(result.record.trials[1].folder == "trials/2-offload-stream-fraction-0-4-keep-last-2");
  bench.settings.strategies = {"none", " offload:stream,keep_last=2 , fraction=4e-1"};
  bench.run();
  CHECK(bench.starts() == "");
}

namespace {

// Halves the offloaded fraction until a trial fails.
class Halving : public TrialProposer {
 public:
  explicit Halving(const std::vector<InspectedModelAtShape>& settings) : settings_(settings) {}

  std::vector<TrialProposal> next(std::span<const FinishedProposal> tried) override {
    rows_.push_back(tried.size());
    if (!tried.empty() && tried.back().measurement.outcome != TrialOutcome::ok) return {};
    const auto strategy = plan::Strategy::parse("offload:stream,fraction=" + std::to_string(share_));
    share_ /= 2;
    return {{to_string(strategy), 0, plan::make_plan(strategy, settings_[0].facts.program)}};
  }

  static std::vector<size_t> rows_;  // number of trials at each call

 private:
  const std::vector<InspectedModelAtShape>& settings_;
  double share_ = 1;
};
std::vector<size_t> Halving::rows_;

}  // namespace

TEST_CASE("a proposer is called again with all measurements until it proposes nothing") {
  Bench bench;
  Halving::rows_.clear();
  const auto halving = [](const CandidateStrategiesAndUserPlanFiles&,
                          const std::vector<InspectedModelAtShape>& settings) {
    return std::make_unique<Halving>(settings);
  };
  const auto sweep = [&] {
    const test::Variable rules("FAKE_TRIAL", "offload:stream,fraction=0.25=device_oom");
    return run_sweep(bench.settings, bench.listener, halving);
  };
  const SweepRecordAndReport result = sweep();
  CHECK(bench.starts() == "inspect\noffload:stream\noffload:stream,fraction=0.5\noffload:stream,fraction=0.25\n");
  CHECK(Halving::rows_ == std::vector<size_t>{0, 1, 2, 3});
  CHECK(bench.listener.proposed == std::vector<size_t>{1, 2, 3});
  CHECK(result.report.rows.size() == 3);
  CHECK_FALSE(result.interrupted);
  Halving::rows_.clear();
  sweep();  // reused trials count as measured
  CHECK(bench.starts() == "");
  CHECK(Halving::rows_ == std::vector<size_t>{0, 1, 2, 3});
}

TEST_CASE("a proposer that repeats itself ends the sweep") {
  Bench bench;
  struct Again : TrialProposer {
    std::vector<TrialProposal> next(std::span<const FinishedProposal>) override {
      return {{"none", 0, plan::make_plan(plan::Strategy(), {})}};
    }
  };
  run_sweep(bench.settings, bench.listener,
            [](const CandidateStrategiesAndUserPlanFiles&, const std::vector<InspectedModelAtShape>&) {
              return std::make_unique<Again>();
            });
  CHECK(bench.starts() == "inspect\nnone\n");
}

TEST_CASE("a plan file is tried last as a strategy with its own name") {
  Bench bench;
  bench.settings.plans = {plan_file(bench, "mine.json", kPlan)};
  const SweepRecordAndReport result = bench.run();
  CHECK(bench.starts() == "inspect\nnone\ncheckpoint:full\noffload:stream\nmine\n");
  CHECK(result.report.rows[3].measurement.strategy == "mine");
  CHECK(result.report.rows[3].measurement.plan == "trials/4-mine/plan.json");
  const std::string kept = read_file(bench.settings.directory / "trials/4-mine/plan.json");
  CHECK(kept.find("layers.0/aten::silu") != std::string::npos);
}

TEST_CASE("an edited plan runs again unless it means the same") {
  Bench bench;
  bench.settings.strategies = {"none"};
  bench.settings.plans = {plan_file(bench, "mine.json", kPlan)};
  bench.run();
  bench.starts();
  bench.settings.plans = {plan_file(bench, "mine.json", "\n" + kPlan)};
  bench.run();
  CHECK(bench.starts() == "");
  bench.settings.plans = {
      plan_file(bench, "mine.json", R"({"version": 1, "rules": [{"op": "silu", "outputs": "recompute"}]})")};
  bench.run();
  CHECK(bench.starts() == "none again\nmine\n");
}

TEST_CASE("errors of a plan file are reported with all other errors") {
  Bench bench;
  bench.settings.strategies = {"none", "checkpoint:every=5"};
  bench.settings.plans = {
      plan_file(bench, "mine.json", R"({"version": 1, "rules": [{"op": "gelu", "outputs": "host"}]})")};
  CHECK_THROWS_WITH_AS(bench.run(), doctest::Contains("; mine.json: plan.rules[0].op: what the rule selects has no op"),
                       UsageError);
}

TEST_CASE("two plans with the same name are refused") {
  Bench bench;
  bench.settings.plans = {plan_file(bench, "a.json", R"({"version": 1, "name": "x"})"),
                          plan_file(bench, "b.json", R"({"version": 1, "name": "x"})")};
  CHECK_THROWS_WITH_AS(bench.run(), "two plans are called 'x'; give one of them another \"name\"", UsageError);
  CHECK(bench.starts() == "");
}

TEST_CASE("activations on disk need a scratch folder for strategies and plan files") {
  Bench bench;
  bench.settings.strategies = {"none", "checkpoint:full,inputs=disk"};
  bench.settings.plans = {
      plan_file(bench, "mine.json", R"({"version": 1, "rules": [{"op": "silu", "outputs": "disk"}]})")};
  CHECK_THROWS_WITH_AS(bench.run(),
                       "'checkpoint:full,inputs=disk' places values on disk: --scratch DIR has to say where; 'mine' "
                       "places values on disk: --scratch DIR has to say where",
                       UsageError);
  CHECK(bench.starts() == "");
  bench.settings.request.training.scratch = bench.folder.path;
  CHECK(bench.run().report.rows.size() == 3);
}

TEST_CASE("offloaded states are refused with ranks and with optimizers that page their own") {
  Bench bench;
  bench.settings.strategies = {"none", "states=host"};
  bench.settings.request.training.optimizer = "paged_adamw_8bit";
  CHECK_THROWS_WITH_AS(bench.run(),
                       "'states=host' offloads optimizer states, and paged_adamw_8bit keeps them in host memory by "
                       "itself: use another --optimizer",
                       UsageError);
  bench.settings.request.training.optimizer = "adamw";
  bench.settings.request.training.ranks = 2;
  CHECK_THROWS_WITH_AS(bench.run(),
                       "'states=host' offloads optimizer states, and works on one GPU: for --ranks use --shard-offload",
                       UsageError);
  CHECK(bench.starts() == "");
}

TEST_CASE("an inspection runs no trial and is not repeated after a sweep") {
  Bench bench;
  const auto facts = inspect_model(bench.settings, bench.listener);
  REQUIRE(facts);
  CHECK(facts->program.blocks.size() == 4);
  CHECK(bench.starts() == "inspect\n");
  CHECK_FALSE(std::filesystem::exists(bench.settings.directory));
  bench.run();
  bench.starts();
  inspect_model(bench.settings, bench.listener);
  CHECK(bench.starts() == "");
}

}  // namespace memtune::sweep_test
