// Chooses trainer settings and plans for a command from native trials, which are faked here.
#include "core/sweep/commands/engine_guided_variant_selector.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"

namespace memtune::planned_variants_test {

using namespace memtune;
using namespace memtune::sweep;
using memtune::result::TrialOutcome;
using Names = std::vector<std::string>;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Returns preset results and records the requests.
struct Told : TrainingCommandModelEngineTrialRunner {
  std::map<std::string, EngineMeasuredOrSimulatedStepTimeAndPeak> steps = {{"none", {100, 1000 * kMiB}},
                                                                           {"checkpoint:full", {130, 400 * kMiB}},
                                                                           {"checkpoint:every=2", {115, 700 * kMiB}},
                                                                           {"checkpoint:every=4", {107, 850 * kMiB}}};
  int64_t least_bytes = 300 * kMiB;  // the smallest budget with a plan
  int64_t needed_below = 10000 * kMiB;
  int64_t unused_bytes = 0;  // of a plan's budget
  std::string broken;        // the failure of all trials; "": none
  std::string where = "NVIDIA H200";
  bool unknown_model = false;
  std::vector<int64_t> budgets, host_budgets;
  Names first;

  bool run_first(const std::string& strategy) override {
    if (unknown_model) throw UsageError("no such model");
    first.push_back(strategy);
    return true;
  }
  bool run(const Names&, int64_t budget_bytes, int64_t host_budget_bytes) override {
    budgets.push_back(budget_bytes);
    host_budgets.push_back(host_budget_bytes);
    return true;
  }
  std::optional<EngineMeasuredOrSimulatedStepTimeAndPeak> step(const std::string& strategy) const override {
    const auto found = steps.find(strategy);
    return found == steps.end() ? std::nullopt : std::optional(found->second);
  }
  std::string failure() const override { return broken; }
  PythonPlanOrFailureReason plan(const std::function<bool(const std::string&)>&) const override {
    if (budgets.back() >= needed_below) return {"", "", "no plan is needed", {}};
    if (budgets.back() < least_bytes) return {"", "", "no plan fits"};
    return {"plan:x", "PLAN = " + std::to_string(budgets.back()), "", {}, budgets.back() - unused_bytes};
  }
  double tokens() const override { return 0; }
  std::string device() const override { return where; }
};

SweepTrialAndMeasurement trial(const std::string& name, int64_t peak_mib, TrialOutcome outcome = TrialOutcome::ok) {
  SweepTrialAndMeasurement trial;
  trial.spec.strategy = trial.measurement.strategy = name;
  trial.measurement.outcome = outcome;
  trial.measurement.device = "NVIDIA H200";
  trial.measurement.step_ms.median = 100;
  trial.measurement.peak_bytes.allocated = peak_mib * kMiB;
  return trial;
}

struct Stage {
  Told native;
  CommandSweepSettingsAndVariants sweep;
  std::vector<SweepTrialAndMeasurement> tried;
  EngineGuidedVariantSelector planned;

  explicit Stage(int64_t budget_mib, const std::string& own_like = "checkpoint:full", bool asked = false)
      : planned(native, {"none"}, budget_mib * kMiB, asked, false) {
    sweep.trainer = "axolotl";
    add("own", own_like);
    add("off", "none");
    add("reentrant", "checkpoint:full");
    add("liger", "");
    add("every-2", "checkpoint:every=2");
    add("every-4", "checkpoint:every=4");
    add("off+liger", "none", {"off", "liger"});
  }
  void add(const std::string& name, const std::string& like, Names parts = {}) {
    sweep.variants.push_back({name, {"train", name}, "", "", "own", std::move(parts), like});
  }
  // Adds the ended trials `what`; returns the next variants to run.
  Names after(const std::vector<SweepTrialAndMeasurement>& what) {
    tried.insert(tried.end(), what.begin(), what.end());
    return planned.next(tried, sweep).value();
  }
  const CommandVariant& variant(const std::string& name) const {
    return *std::ranges::find(sweep.variants, name, &CommandVariant::name);
  }
  bool notes(const std::string& words) const {
    return std::ranges::any_of(sweep.notes, [&](const auto& note) { return note.find(words) != std::string::npos; });
  }
};

}  // namespace

TEST_CASE("the user's command runs first and then settings that fit in native trials and the plan") {
  Stage stage(1100);
  CHECK(stage.after({}) == Names{"own"});
  CHECK(stage.native.first == Names{"checkpoint:full"});
  // The command holds 200 MiB more than the native trial of checkpoint:full: 900 of 1100 MiB are left to plan for.
  CHECK(stage.after({trial("own", 600)}) == Names{"every-4", "every-2", "plan:1.07 GiB"});
  CHECK(stage.native.budgets == std::vector<int64_t>{900 * kMiB});
  CHECK(stage.native.host_budgets == std::vector<int64_t>{0});
  CHECK(stage.notes("200 MiB more"));
  CHECK(stage.notes("not tried, because memtune's own trials do not predict them (--all-settings runs them): liger"));
  const CommandVariant& plan = stage.variant("plan:1.07 GiB");
  CHECK(plan.planned);
  CHECK(plan.plan_text == "PLAN = " + std::to_string(900 * kMiB));
  CHECK(plan.command == Names{"train", "off"});  // the command's own checkpointing would interfere
  CHECK(stage.notes("plan:1.07 GiB is run with the settings of off"));
  CHECK(stage.after({trial("every-4", 1050), trial("every-2", 900), trial("plan:1.07 GiB", 1090)}) == Names{});
}

TEST_CASE("a plan that exceeds the budget is replanned for less by the excess at most twice") {
  Stage stage(1100);
  stage.after({});
  stage.after({trial("own", 600)});
  CHECK(stage.after({trial("plan:1.07 GiB", 1150)}) == Names{"plan:1.07 GiB-2"});
  CHECK(stage.native.budgets.back() == 850 * kMiB);
  CHECK(stage.after({trial("plan:1.07 GiB-2", 0, TrialOutcome::device_oom)}) == Names{"plan:1.07 GiB-3"});
  CHECK(stage.native.budgets.back() == 765 * kMiB);
  CHECK(stage.after({trial("plan:1.07 GiB-3", 1101)}) == Names{});
}

TEST_CASE(
    "a plan that exceeds the budget although it uses less than it was allowed is replanned for less than it uses") {
  Stage stage(1100);
  stage.native.unused_bytes = 30 * kMiB;
  stage.after({});
  stage.after({trial("own", 600)});
  CHECK(stage.native.budgets.back() == 900 * kMiB);
  CHECK(stage.after({trial("plan:1.07 GiB", 1101)}) == Names{"plan:1.07 GiB-2"});
  CHECK(stage.native.budgets.back() == (900 - 30 - 1) * kMiB);
}

TEST_CASE("a plan that cannot be applied is not replanned") {
  Stage stage(1100);
  stage.after({});
  stage.after({trial("own", 600)});
  CHECK(stage.after({trial("plan:1.07 GiB", 0, TrialOutcome::error)}) == Names{});
}

TEST_CASE("if no smaller plan exists the present plan stays") {
  Stage stage(1100);
  stage.native.least_bytes = 880 * kMiB;
  stage.after({});
  CHECK(stage.after({trial("own", 600)}).back() == "plan:1.07 GiB");
  CHECK(stage.after({trial("plan:1.07 GiB", 1150)}) == Names{});
  CHECK(stage.sweep.no_plan == "");
}

TEST_CASE("if no setting fits the budget only settings with lower peaks are run") {
  Stage stage(1000, "none");
  CHECK(stage.after({}) == Names{"own"});
  // 450 MiB are left, which only full checkpointing fits.
  CHECK(stage.after({trial("own", 1550)}) == Names{"reentrant", "plan:1000 MiB"});
  CHECK(stage.variant("plan:1000 MiB").command == Names{"train", "own"});
  CHECK(stage.after({trial("reentrant", 1010), trial("plan:1000 MiB", 900)}) == Names{});
  Stage tighter(900, "none");
  tighter.after({});
  CHECK(tighter.after({trial("own", 1550)}) == Names{"plan:900 MiB"});
  CHECK(tighter.after({trial("plan:900 MiB", 880)}) == Names{"reentrant"});  // native trials may be off
  CHECK(tighter.after({trial("reentrant", 950)}) == Names{});
}

TEST_CASE("a plan is made if the variant without checkpointing exceeds the budget after all") {
  Stage stage(1300);
  stage.native.needed_below = 1000 * kMiB;
  stage.after({});
  CHECK(stage.after({trial("own", 600)}) == Names{"off", "every-4", "every-2"});
  CHECK(stage.sweep.no_plan == "no plan is needed");
  CHECK(stage.after({trial("off", 1450), trial("every-4", 1200), trial("every-2", 1100)}) == Names{"plan:1.27 GiB"});
  CHECK(stage.native.budgets.back() == 950 * kMiB);
  CHECK(stage.sweep.no_plan == "");
  CHECK(stage.after({trial("plan:1.27 GiB", 1290)}) == Names{});
}

TEST_CASE("a failed setting is replaced by the next one") {
  Stage stage(1300);
  stage.native.steps["checkpoint:every=8"] = {103, 920 * kMiB};
  stage.native.steps["checkpoint:every=16"] = {102, 960 * kMiB};
  stage.add("every-8", "checkpoint:every=8");
  stage.add("every-16", "checkpoint:every=16");
  stage.after({});
  CHECK(stage.after({trial("own", 600)}) == Names{"off", "every-16", "every-8", "plan:1.27 GiB"});
  CHECK(stage.after({trial("off", 1290), trial("every-16", 0, TrialOutcome::error),
                     trial("every-8", 0, TrialOutcome::error), trial("plan:1.27 GiB", 1290)}) ==
        Names{"every-4", "every-2"});
  CHECK(stage.after({trial("every-4", 1100), trial("every-2", 1000)}) == Names{});
  Stage late(1300);
  late.native.steps = stage.native.steps;
  late.add("every-8", "checkpoint:every=8");
  late.add("every-16", "checkpoint:every=16");
  late.after({});
  late.after({trial("own", 600)});
  CHECK(late.after({trial("off", 1290), trial("every-16", 0, TrialOutcome::skipped),
                    trial("every-8", 0, TrialOutcome::skipped), trial("plan:1.27 GiB", 0, TrialOutcome::skipped)}) ==
        Names{});
}

TEST_CASE("without a plan the settings remain and the reason is recorded") {
  Stage stage(1100);
  stage.native.least_bytes = 2000 * kMiB;
  stage.after({});
  CHECK(stage.after({trial("own", 600)}) == Names{"every-4", "every-2"});
  CHECK(stage.sweep.no_plan == "no plan fits");
  Stage nothing_left(150);
  nothing_left.after({});
  nothing_left.after({trial("own", 600)});
  CHECK(nothing_left.native.budgets.empty());
  CHECK(nothing_left.sweep.no_plan == "memory of the command outside of the plan leaves nothing of 150 MiB for a plan");
}

TEST_CASE("a failing command ends the sweep unless it ran out of memory") {
  Stage stage(1100);
  stage.after({});
  CHECK(stage.after({trial("own", 0, TrialOutcome::error)}) == Names{});
  CHECK(stage.sweep.no_plan == "the unchanged command did not work, so nothing was planned");
  CHECK(stage.native.budgets.empty());
  Stage small(1100);
  small.after({});
  CHECK(small.after({trial("own", 0, TrialOutcome::device_oom)}).back() == "plan:1.07 GiB");
  CHECK(small.native.budgets == std::vector<int64_t>{1100 * kMiB});
}

TEST_CASE("plans on a CPU offload nothing because the bytes would stay in the process") {
  Stage stage(1100);
  stage.after({});
  SweepTrialAndMeasurement own = trial("own", 600);
  own.measurement.device = "CPU (4 cores)";
  stage.native.where = "CPU (4 cores)";
  stage.native.steps["checkpoint:full,inputs=host"] = {90, 100 * kMiB};
  stage.add("on-host", "checkpoint:full,inputs=host");
  CHECK(stage.after({own}) == Names{"every-4", "every-2", "plan:1.07 GiB"});
  CHECK(stage.native.host_budgets == std::vector<int64_t>{1});
  Stage unknown(1100);  // a command that ran out of memory did not report its device
  unknown.native.where = "CPU (4 cores)";
  unknown.after({});
  own = trial("own", 0, TrialOutcome::host_oom);
  own.measurement.device = "";
  unknown.after({own});
  CHECK(unknown.native.host_budgets == std::vector<int64_t>{1});
}

TEST_CASE("native trials on another kind of device are not used for the command") {
  Stage stage(1100);
  stage.after({});
  SweepTrialAndMeasurement own = trial("own", 600);
  own.measurement.device = "CPU (4 cores)";
  CHECK(stage.after({own}) == Names{});
  CHECK(stage.native.budgets.empty());
  CHECK(stage.sweep.no_plan ==
        "the command trains on CPU (4 cores) and memtune's own trials ran on NVIDIA H200, so nothing was planned: "
        "choose the device with --device");
}

TEST_CASE("without native trials all settings are tried unless a model was named") {
  for (const bool unknown : {true, false}) {
    Stage stage(1100), asked(1100, "none", true);
    stage.native.unknown_model = asked.native.unknown_model = unknown;
    stage.native.broken = asked.native.broken = "error: no such op";
    CHECK_FALSE(stage.planned.next({}, stage.sweep).has_value());
    CHECK_FALSE(stage.planned.next(stage.tried, stage.sweep).has_value());
    CHECK(stage.sweep.native == "");
    CHECK(stage.notes(unknown ? "no such model" : "no such op"));
    CHECK_THROWS_AS(asked.planned.next({}, asked.sweep), UsageError);
  }
  Stage tight(1100);
  tight.native.broken = "device_oom: asked for 2 GiB";
  CHECK(tight.after({}) == Names{"own"});
}

TEST_CASE("native trials plan with the given CPU memory and offload nothing on a CPU") {
  plan::TrainingSettings training;
  CHECK(limits_of(training, 100, 0).host_budget_bytes == 0);  // no limit
  CHECK(limits_of(training, 100, 1).host_budget_bytes == 1);
  training.host_budget_bytes = 5000;
  const planner::PlanMemoryBudgets limits = limits_of(training, 100, 0);
  CHECK(limits.budget_bytes == 100);
  CHECK(limits.host_budget_bytes == 5000);
  CHECK(limits_of(training, 100, 1).host_budget_bytes == 1);
}

}  // namespace memtune::planned_variants_test
