// Trials of a sweep under a budget. If the baseline fits, nothing else is tried. Otherwise the sweep tries its own plan
// and the nearest strategies, and corrects the plan by the measurements.
#include "core/sweep/proposals/plan_proposer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/plan/planner/step_predictor.h"
#include "core/plan/rules/strategy.h"
#include "tests/planner/costs.h"
#include "tests/support/run_program.h"

namespace memtune::plan_proposer_test {

using namespace memtune;
using namespace memtune::sweep;
using namespace memtune::test;
using nlohmann::json;
using result::TrialOutcome;

namespace {

// A sweep of a decoder with simulated trials. The machine may be slower than the cost model.
class PaperSweep {
 public:
  PaperSweep(double gb_per_s, int64_t budget_bytes,
             std::vector<std::string> strategies = {"none", "checkpoint:full", "checkpoint:cheap", "offload:stream"})
      : budget_bytes_(budget_bytes), strategies_(std::move(strategies)) {
    for (InspectedModelAtShape& setting : settings_) setting.facts.program = decoder(4);
    costs_ = step_of(program(), decoder_ms(program()));
    costs_.out_gb_per_s = costs_.in_gb_per_s = gb_per_s;
    real_ = costs_;
    write_file(folder_.path / "costs.json", json(costs_).dump());
  }

  const plan::ProgramFacts& program() const { return settings_[0].facts.program; }
  int64_t peak_bytes() const { return planner::StepPredictor(program(), costs_).predict({}).peak_bytes; }

  // Returns the names of the trials in order.
  std::vector<std::string> run() {
    const CandidateStrategiesAndUserPlanFiles candidates(strategies_, {}, training, fallback);
    const auto proposer = propose_plans({budget_bytes_}, false, own)(candidates, settings_);
    std::vector<std::string> names;
    const auto count = [&](size_t budget, size_t budgets) {
      CHECK(budgets == 8);
      begun.push_back(budget);
    };
    for (auto proposals = next(*proposer); !proposals.empty(); proposals = next(*proposer)) {
      if (asks_frontier) frontier = proposer->frontier(0, count);
      for (const TrialProposal& proposal : proposals) {
        tried.push_back({proposal.name, proposal.setting, measure(proposal), folder_.path});
        names.push_back(proposal.name);
        if (proposal.costs) recorded.push_back(proposal.name);
        if (proposal.expandable_segments) growing.push_back(proposal.name);
        if (proposal.predicted) predicted.push_back(*proposal.predicted);
        if (proposal.name.starts_with("plan:")) plans.push_back(proposal.plan);
      }
    }
    if (asks_frontier) frontier = proposer->frontier(0, count);
    return names;
  }

  // Adds a second setting that is as large as the first.
  void add_batch() {
    settings_.push_back(settings_[0]);
    settings_[0].batch = 2;
    settings_[1].batch = 4;
  }

  std::string own;  // the strategy of the user's config
  plan::TrainingSettings training;
  std::vector<std::string> fallback;
  bool asks_frontier = false;  // plans of eight further budgets take time
  std::vector<result::TrialPrediction> frontier;
  std::vector<size_t> begun;  // budgets of frontiers, in order
  std::vector<FinishedProposal> tried;
  std::vector<result::TrialPrediction> predicted;
  std::string notes;
  plan::RecordedStepCosts real_;  // of the simulated machine
  int64_t more_bytes = 0;         // peak above the prediction, except of `none`
  int64_t more_in_baseline = 0;
  std::vector<std::string> recorded;  // trials that record costs
  std::optional<TrialOutcome> fails_first_plan;
  std::function<void(result::TrialMeasurement&)> alter_first_plan = {};
  std::vector<plan::Plan> plans;
  // By how much the plan exceeds the budget in one segment that grows.
  int64_t short_bytes(const plan::Plan& plan) const {
    return planner::StepPredictor(program(), costs_).predict(plan, {}, nullptr, {budget_bytes_, true}).short_bytes;
  }
  std::vector<std::string> growing;  // trials with expandable segments from the start

  // From now on sizes are those of PyTorch's allocator on a GPU.
  void use_segments() {
    costs_.grain_bytes = real_.grain_bytes = 512;
    write_file(folder_.path / "costs.json", json(costs_).dump());
  }
  void fails(const std::string& name, TrialOutcome outcome) { outcomes_[name] = outcome; }
  void name_another_op() {
    plan::RecordedStepCosts costs = costs_;
    costs.runs[2].op = static_cast<int>(program().ops.size());
    write_file(folder_.path / "costs.json", json(costs).dump());
  }
  void record_parameters() {
    record_states(program(), costs_);
    real_ = costs_;
    write_file(folder_.path / "costs.json", json(costs_).dump());
  }
  void forget_costs() { std::filesystem::remove(folder_.path / "costs.json"); }

 private:
  std::vector<TrialProposal> next(TrialProposer& proposer) {
    std::vector<TrialProposal> proposals = proposer.next(tried);
    for (const std::string& note : proposer.take_notes()) notes += note + "\n";
    return proposals;
  }

  result::TrialMeasurement measure(const TrialProposal& proposal) {
    const planner::StepPrediction step = planner::StepPredictor(program(), real_).predict(proposal.plan);
    result::TrialMeasurement measurement;
    measurement.strategy = proposal.name;
    measurement.step_ms = result::summarize({step.step_ms});
    measurement.peak_bytes.allocated = step.peak_bytes + (proposal.name == "none" ? more_in_baseline : more_bytes);
    const auto failed = outcomes_.find(proposal.name);
    if (failed != outcomes_.end()) measurement.outcome = failed->second;
    const bool is_plan = proposal.name.starts_with("plan:");
    if (is_plan && fails_first_plan) measurement.outcome = *std::exchange(fails_first_plan, std::nullopt);
    if (is_plan && alter_first_plan) std::exchange(alter_first_plan, {})(measurement);
    return measurement;
  }

  const int64_t budget_bytes_;
  const std::vector<std::string> strategies_;
  std::vector<InspectedModelAtShape> settings_ = std::vector<InspectedModelAtShape>(1);
  plan::RecordedStepCosts costs_;
  std::map<std::string, TrialOutcome> outcomes_;  // of failed trials
  ScratchFolder folder_;
};

bool has(const std::vector<std::string>& names, const std::string& name) { return std::ranges::count(names, name) > 0; }

}  // namespace

TEST_CASE("nothing else is tried if the baseline fits the budget") {
  PaperSweep sweep(50, 100 * 1024 * kMiB);
  CHECK(sweep.run() == std::vector<std::string>{"none"});
  CHECK(sweep.notes.find("none fits the budget of 100 GiB") == 0);
}

TEST_CASE("the strategy of the user's config always runs") {
  PaperSweep fits(20, PaperSweep(20, 0).peak_bytes());
  fits.own = "checkpoint:cheap";
  CHECK(fits.run() == std::vector<std::string>{"none", "checkpoint:cheap"});
  PaperSweep tight(20, PaperSweep(20, 0).peak_bytes() / 2);
  tight.own = "checkpoint:cheap";  // neither the fastest nor checkpoint:full
  const std::vector<std::string> names = tight.run();
  CHECK(std::ranges::count(names, "checkpoint:cheap") == 1);
  PaperSweep baseline(20, PaperSweep(20, 0).peak_bytes());
  baseline.own = "none";
  CHECK(baseline.run() == std::vector<std::string>{"none"});
}

TEST_CASE("a plan fits a budget below the baseline's peak and is no slower than fitting strategies") {
  PaperSweep sweep(50, 7 * 1024 * kMiB);
  REQUIRE(sweep.peak_bytes() > 7 * 1024 * kMiB);
  const auto names = sweep.run();
  REQUIRE(names.size() >= 2);
  CHECK(names[0] == "none");
  CHECK(names[1] == "plan:7 GiB");
  const result::TrialMeasurement& plan = sweep.tried[1].measurement;
  CHECK(plan.peak_bytes.allocated <= 7 * 1024 * kMiB);
  for (size_t i = 2; i < sweep.tried.size(); ++i)
    CHECK(sweep.tried[i].measurement.step_ms.median >= plan.step_ms.median);
  CHECK(sweep.predicted.size() == names.size() - 1);
  CHECK(sweep.predicted[0].peak_bytes == plan.peak_bytes.allocated);
  CHECK(sweep.notes.find("not run, because") != std::string::npos);
  CHECK(has(names, "checkpoint:full"));     // for export
  CHECK_FALSE(has(names, "plan:7 GiB-2"));  // the prediction was right
}

TEST_CASE("presets of other engines are ranked by prediction and run unpredicted if they offload each saved tensor") {
  PaperSweep sweep(5, 7 * 1024 * kMiB, {"none", "checkpoint:full", "checkpoint:hf-offload", "offload:trl"});
  const auto names = sweep.run();
  CHECK(has(names, "checkpoint:full"));
  CHECK_FALSE(has(names, "checkpoint:hf-offload"));
  CHECK(sweep.notes.find("predicted to be slower: checkpoint:hf-offload") != std::string::npos);
  CHECK(has(names, "offload:trl"));
}

TEST_CASE("a plan that exceeded its budget is planned again with less memory and then fits") {
  PaperSweep sweep(50, 7 * 1024 * kMiB);
  sweep.more_bytes = 200 * kMiB;
  const auto names = sweep.run();
  REQUIRE(has(names, "plan:7 GiB-2"));
  CHECK(sweep.tried[1].measurement.peak_bytes.allocated > 7 * 1024 * kMiB);
  CHECK(sweep.tried.back().name == "plan:7 GiB-2");
  CHECK(sweep.tried.back().measurement.peak_bytes.allocated <= 7 * 1024 * kMiB);
}

TEST_CASE("a plan whose segments did not suffice is planned again with less memory") {
  const auto replanned = [](std::function<void(result::TrialMeasurement&)> alter) {
    PaperSweep sweep(50, 7 * 1024 * kMiB);
    sweep.alter_first_plan = std::move(alter);
    const std::vector<std::string> names = sweep.run();
    if (!has(names, "plan:7 GiB-2")) return false;
    CHECK(sweep.predicted.back().peak_bytes < sweep.predicted.front().peak_bytes - 100 * kMiB);
    return true;
  };
  const auto late = [](result::TrialMeasurement& m) { m.step_ms = result::summarize({1.1 * m.step_ms.median}); };
  CHECK(replanned([](result::TrialMeasurement& m) { m.allocator = "expandable_segments:True"; }));
  CHECK(replanned([&](result::TrialMeasurement& m) {
    late(m);
    m.allocator_retries = 5;
  }));
  CHECK_FALSE(replanned([](result::TrialMeasurement& m) { m.allocator_retries = 5; }));  // on time
}

TEST_CASE("a plan for a GPU fits in segments, or runs with expandable segments if none does") {
  PaperSweep roomy(50, 7 * 1024 * kMiB);
  roomy.use_segments();
  CHECK(has(roomy.run(), "plan:7 GiB"));
  CHECK(roomy.growing.empty());
  const int64_t fits = roomy.predicted.front().required_bytes > 0 ? roomy.predicted.front().required_bytes
                                                                  : roomy.predicted.front().peak_bytes;
  CHECK(fits <= 7 * 1024 * kMiB);
  bool grew = false;
  for (int64_t mib = 6400; mib > 1024 && !grew; mib -= 256) {  // the first that grows today
    PaperSweep tight(50, mib * kMiB);
    tight.use_segments();
    const std::vector<std::string> names = tight.run();
    grew = !tight.growing.empty() && has(names, tight.growing.front());
    if (grew) CHECK(tight.predicted.front().peak_bytes <= mib * kMiB);
  }
  CHECK(grew);
}

TEST_CASE("after a plan whose segments did not suffice comes one that also fits in one segment that grows") {
  constexpr int kFound = 3;
  int found = 0;
  for (int64_t mib = 9216; mib > 4096 && found < kFound; mib -= 128) {
    CAPTURE(mib);
    PaperSweep sweep(50, mib * kMiB);
    sweep.use_segments();
    sweep.alter_first_plan = [](result::TrialMeasurement& m) { m.allocator = "expandable_segments:True"; };
    sweep.run();
    REQUIRE(sweep.plans.size() >= 2);
    if (sweep.short_bytes(sweep.plans[0]) == 0) continue;  // such a plan says nothing
    ++found;
    CHECK(sweep.short_bytes(sweep.plans[1]) == 0);
  }
  CHECK(found == kFound);
}

TEST_CASE("a plan is computed again with a lower PCIe bandwidth than was recorded") {
  PaperSweep sweep(50, 6 * 1024 * kMiB);
  sweep.real_.out_gb_per_s = sweep.real_.in_gb_per_s = 18;
  const auto names = sweep.run();
  REQUIRE(has(names, "plan:6 GiB-2"));
  CHECK(sweep.tried.back().measurement.step_ms.median < sweep.tried[1].measurement.step_ms.median);
}

TEST_CASE("the plan is made from recorded costs of checkpoint:full if the baseline does not fit") {
  PaperSweep sweep(50, 7 * 1024 * kMiB);
  sweep.fails("none", TrialOutcome::device_oom);
  const auto names = sweep.run();
  REQUIRE(names.size() >= 3);
  CHECK(names[0] == "none");
  CHECK(names[1] == "checkpoint:full");
  CHECK(names[2] == "plan:7 GiB");
  CHECK(std::ranges::count(names, "checkpoint:full") == 1);
  CHECK(sweep.recorded == std::vector<std::string>{"none", "checkpoint:full"});
  CHECK(sweep.tried[2].measurement.peak_bytes.allocated <= 7 * 1024 * kMiB);
  CHECK(sweep.notes.find("none ended in device_oom, so checkpoint:full is planned from: without checkpointing its step "
                         "is predicted to take " +
                         format_bytes(sweep.peak_bytes())) == 0);
}

TEST_CASE("plans take less memory than a baseline or a plan that ran out of memory") {
  PaperSweep sweep(50, 100 * 1024 * kMiB);
  sweep.fails("none", TrialOutcome::device_oom);
  sweep.fails_first_plan = TrialOutcome::device_oom;
  const auto names = sweep.run();
  REQUIRE(names.size() >= 4);
  CHECK(names[2].starts_with("plan:"));
  CHECK(sweep.predicted[0].peak_bytes < sweep.peak_bytes());
  CHECK(names.back().ends_with("-2"));
  CHECK(sweep.tried.back().measurement.peak_bytes.allocated < sweep.predicted[0].peak_bytes);
}

TEST_CASE("all strategies are tried if neither none nor checkpoint:full gives costs") {
  const std::vector<std::string> all = {"none", "checkpoint:full", "checkpoint:cheap", "offload:stream"};
  PaperSweep both(50, 7 * 1024 * kMiB);
  both.fails("none", TrialOutcome::device_oom);
  both.fails("checkpoint:full", TrialOutcome::device_oom);
  CHECK(both.run() == all);
  CHECK(both.notes.find("none ended in device_oom, checkpoint:full ended in device_oom, so there is nothing") == 0);
  PaperSweep without(50, 7 * 1024 * kMiB);
  without.fails("none", TrialOutcome::device_oom);
  without.forget_costs();
  CHECK(without.run() == all);
  PaperSweep wrong(50, 7 * 1024 * kMiB);  // it did not run out of memory
  wrong.fails("none", TrialOutcome::nan);
  CHECK(wrong.run() == all);
  CHECK(wrong.recorded == std::vector<std::string>{"none"});
  CHECK(wrong.notes.find("none ended in nan, so there is nothing to plan from") == 0);
  PaperSweep other(50, 7 * 1024 * kMiB, {"none", "checkpoint:cheap"});
  other.fails("none", TrialOutcome::device_oom);
  CHECK(other.run() == std::vector<std::string>{"none", "checkpoint:cheap"});
}

const std::vector<std::string> kFallback = {"checkpoint:full+states=host", "states=host,outside=host"};

TEST_CASE("the fallback runs if the device has no room for the others, but for trainings that it does not go with") {
  const auto run = [](const char* optimizer, TrialOutcome outcome) {
    PaperSweep sweep(50, 7 * 1024 * kMiB, {"none", "checkpoint:full"});
    sweep.fallback = kFallback;
    sweep.training.optimizer = optimizer;
    for (const char* name : {"none", "checkpoint:full"}) sweep.fails(name, outcome);
    sweep.fails(kFallback[0], outcome);
    return sweep.run();
  };
  CHECK(run("adamw", TrialOutcome::device_oom) ==
        std::vector<std::string>{"none", "checkpoint:full", kFallback[0], kFallback[1]});
  CHECK(run("paged_adamw_8bit", TrialOutcome::device_oom).size() == 2);
  CHECK(run("adamw", TrialOutcome::nan).size() == 2);
  PaperSweep small(50, 7 * 1024 * kMiB, {"none"});  // the model has fewer blocks than the first needs
  small.fallback = {"checkpoint:every=9+states=host", kFallback[1]};
  for (const std::string& name : {std::string("none"), kFallback[1]}) small.fails(name, TrialOutcome::device_oom);
  CHECK(small.run() == std::vector<std::string>{"none", kFallback[1]});
  CHECK(small.recorded == std::vector<std::string>{"none", kFallback[1]});
  PaperSweep fits(50, 7 * 1024 * kMiB, {"none", "checkpoint:full"});
  fits.fallback = kFallback;
  fits.fails("none", TrialOutcome::device_oom);
  fits.forget_costs();
  CHECK(fits.run() == std::vector<std::string>{"none", "checkpoint:full"});
}

TEST_CASE("a plan is made from costs of the fallback if the device has no room for checkpoint:full") {
  PaperSweep sweep(50, 4 * 1024 * kMiB);
  sweep.record_parameters();
  sweep.fallback = kFallback;
  for (const char* name : {"none", "checkpoint:full"}) sweep.fails(name, TrialOutcome::device_oom);
  const std::vector<std::string> names = sweep.run();
  CHECK(sweep.recorded == std::vector<std::string>{"none", "checkpoint:full", kFallback[0]});
  REQUIRE(sweep.plans.size() == 1);
  CHECK(sweep.plans[0].offloads_states());
  REQUIRE(names.size() > 3);
  CHECK(names[3].starts_with("plan:"));
  CHECK(sweep.notes.find("none ended in device_oom, checkpoint:full ended in device_oom, so "
                         "checkpoint:full+states=host is planned from") != std::string::npos);
}

TEST_CASE("without a budget the fallback runs once, at settings where nothing else had room") {
  const CandidateStrategiesAndUserPlanFiles candidates({"none", "checkpoint:full"}, {}, {}, kFallback);
  std::vector<InspectedModelAtShape> settings(2);
  for (InspectedModelAtShape& setting : settings) setting.facts.program = decoder(2);
  const auto proposer = propose_all(candidates, settings);
  std::vector<FinishedProposal> tried;
  for (const TrialProposal& proposal : proposer->next(tried)) {
    const bool is_first = proposal.setting == 0 && proposal.name == "checkpoint:full";
    tried.push_back({proposal.name, proposal.setting, {}, {}});
    tried.back().measurement.outcome = is_first ? TrialOutcome::ok : TrialOutcome::device_oom;
  }
  REQUIRE(tried.size() == 4);
  const auto more = proposer->next(tried);
  REQUIRE(more.size() == 2);
  for (size_t i = 0; i < more.size(); ++i) {
    CHECK(more[i].name == kFallback[i]);
    CHECK(more[i].setting == 1);
    CHECK(more[i].plan.offloads_states());
  }
  CHECK(proposer->next(tried).empty());
}

TEST_CASE("a plan offloads parameters and optimizer states if there is a fallback, and a note names it") {
  PaperSweep with(50, 4 * 1024 * kMiB), without(50, 4 * 1024 * kMiB);
  with.record_parameters();
  without.record_parameters();
  with.fallback = kFallback;
  with.run();
  without.run();
  REQUIRE(with.plans.size() == 1);
  CHECK(with.plans[0].offloads_states());
  CHECK(with.tried[1].measurement.peak_bytes.allocated <= 4 * 1024 * kMiB);
  CHECK(with.notes.find(
            "plan:4 GiB offloads parameters and optimizer states of 4 of 4 blocks to host memory: with all of "
            "them on the device, no plan fits 4 GiB") == 0);
  CHECK_FALSE(without.plans.back().offloads_states());
  CHECK(without.notes.find("no plan is predicted to fit 4 GiB") != std::string::npos);
}

TEST_CASE("all strategies are tried if a baseline that worked has no usable costs") {
  const std::vector<std::string> all = {"none", "checkpoint:full", "checkpoint:cheap", "offload:stream"};
  PaperSweep forgotten(50, 7 * 1024 * kMiB);
  forgotten.forget_costs();
  CHECK(forgotten.run() == all);
  PaperSweep foreign(50, 7 * 1024 * kMiB);
  foreign.name_another_op();
  CHECK(foreign.run() == all);
}

TEST_CASE("no plan is made from recorded costs that differ from the measured step") {
  PaperSweep sweep(50, 7 * 1024 * kMiB);
  sweep.more_in_baseline = 500 * kMiB;
  CHECK(sweep.run().size() == 4);
  CHECK(sweep.notes.find("the recorded step differs from the measured one") == 0);
}

TEST_CASE("a strategy that needs more blocks than the model has is left out with a note") {
  PaperSweep sweep(50, 7 * 1024 * kMiB, {"none", "checkpoint:full", "checkpoint:every=9"});
  const auto names = sweep.run();
  CHECK_FALSE(has(names, "checkpoint:every=9"));
  CHECK(sweep.notes.find("left out: checkpoint:every=9: n must be at most the number of blocks, 4") == 0);
}

TEST_CASE("a budget that no plan fits gives the smallest plan and a note") {
  PaperSweep sweep(50, 100 * kMiB);
  const auto names = sweep.run();
  CHECK(names == std::vector<std::string>{"none", "plan:least"});
  CHECK(sweep.notes.find("no plan is predicted to fit 100 MiB; the smallest takes ") != std::string::npos);
}

TEST_CASE("plans of other budgets are predicted from the costs and more memory is never slower") {
  PaperSweep sweep(50, 7 * 1024 * kMiB);
  sweep.asks_frontier = true;
  sweep.run();
  REQUIRE(sweep.frontier.size() > 4);
  CHECK(sweep.begun == std::vector<size_t>{1, 2, 3, 4, 5, 6, 7, 8});  // only once for several calls
  for (size_t i = 1; i < sweep.frontier.size(); ++i) {
    CHECK(sweep.frontier[i].peak_bytes >= sweep.frontier[i - 1].peak_bytes);
    CHECK(sweep.frontier[i].step_ms <= sweep.frontier[i - 1].step_ms);
    CHECK(sweep.frontier[i].least_ms <= sweep.frontier[i].step_ms);
  }
  CHECK(sweep.frontier.back().peak_bytes <= sweep.peak_bytes());
  CHECK(sweep.predicted[0].least_ms > 0);
  CHECK(sweep.predicted[0].least_ms <= sweep.predicted[0].step_ms);
  PaperSweep fits(50, 100 * 1024 * kMiB);
  fits.asks_frontier = true;
  fits.run();
  CHECK(fits.frontier.empty());
  CHECK(fits.begun.empty());
}

TEST_CASE("lower PCIe bandwidth changes the predictions for other budgets") {
  PaperSweep slow(50, 6 * 1024 * kMiB), fast(50, 6 * 1024 * kMiB);
  slow.real_.out_gb_per_s = slow.real_.in_gb_per_s = 18;
  slow.asks_frontier = fast.asks_frontier = true;
  slow.run();
  fast.run();
  CHECK(slow.frontier.front().step_ms > fast.frontier.front().step_ms);
}

TEST_CASE("notes name their batch if there are several settings") {
  PaperSweep one(50, 100 * 1024 * kMiB), two(50, 100 * 1024 * kMiB);
  two.add_batch();
  one.run();
  two.run();
  CHECK(one.notes == "none fits the budget of 100 GiB: no plan is needed\n");
  CHECK(two.notes ==
        "batch 2: none fits the budget of 100 GiB: no plan is needed\n"
        "batch 4: none fits the budget of 100 GiB: no plan is needed\n");
}

}  // namespace memtune::plan_proposer_test
