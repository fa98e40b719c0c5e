// Which batches a sweep under a budget runs, and under which plan. They are found from two recordings and confirmed by
// measurements, in few trials.
#include "core/sweep/proposals/batch_proposer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/plan/planner/step_predictor.h"
#include "tests/planner/costs.h"
#include "tests/support/run_program.h"

namespace memtune::batch_proposer_test {

using namespace memtune;
using namespace memtune::sweep;
using namespace memtune::test;
using nlohmann::json;
using result::TrialOutcome;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A sweep of a decoder on a simulated machine. Activations grow with the batch, 4 GiB of other memory do not. The
// device has unlimited memory by default. Each op also takes `fixed_ms` at every batch.
class BatchSweep {
 public:
  BatchSweep(int64_t budget_bytes, double fixed_ms, GlobalBatchOrAccumulationSteps size = {})
      : limits_{budget_bytes, 0}, fixed_ms_(fixed_ms), size_(size) {
    settings_.push_back(setting(first_recorded(size)));
  }

  // Returns the names of the trials in order, such as "none@2".
  std::vector<std::string> run() {
    const CandidateStrategiesAndUserPlanFiles candidates({"none", "checkpoint:full"}, {}, plan::TrainingSettings());
    const auto proposer = propose_batches(limits_, size_, false)(candidates, settings_);
    std::vector<std::string> names;
    for (auto proposals = next(*proposer); !proposals.empty(); proposals = next(*proposer))
      for (const TrialProposal& proposal : proposals) {
        const int64_t batch = *proposal.batch;
        names.push_back(proposal.name + "@" + std::to_string(batch));
        if (proposal.costs) recorded.push_back(names.back());
        measure(proposal, batch);
      }
    return names;
  }

  // Time per sample (ms) of each trial that fits, by name.
  std::map<std::string, double> sample_ms;
  std::vector<std::string> recorded;
  std::string notes;
  int64_t device_bytes = std::numeric_limits<int64_t>::max(), more_bytes = 0;  // peak of plans above the prediction
  double slow_from = std::numeric_limits<double>::infinity();                  // ops take 9 times as long from here on
  double worst_peak_error = 0;                                                 // of predictions, relative

 private:
  static ProgramFacts facts_of(int64_t batch) {
    ProgramFacts facts = decoder(4);
    for (ProgramOpFacts& op : facts.ops) {
      for (int64_t& bytes : op.output_bytes) bytes = bytes / 16 * batch;
      op.flops *= static_cast<double>(batch) / 16;
    }
    return facts;
  }
  static InspectedModelAtShape setting(int64_t batch) {
    InspectedModelAtShape setting{batch, {}, {}};
    setting.facts.program = facts_of(batch);
    return setting;
  }

  std::vector<TrialProposal> next(TrialProposer& proposer) {
    std::vector<TrialProposal> proposals = proposer.next(tried_);
    for (const std::string& note : proposer.take_notes()) notes += note + "\n";
    return proposals;
  }

  void measure(const TrialProposal& proposal, int64_t batch) {
    const ProgramFacts facts = facts_of(batch);
    std::vector<double> ms = decoder_ms(facts);
    for (double& one : ms) one = (one + fixed_ms_) * (static_cast<double>(batch) >= slow_from ? 9 : 1);
    plan::RecordedStepCosts costs = step_of(facts, ms);
    costs.out_gb_per_s = costs.in_gb_per_s = 5;
    costs.passes = static_cast<int>(size_.passes(batch));
    costs.step_ms *= costs.passes;
    const planner::StepPrediction step = planner::StepPredictor(facts, costs).predict(proposal.plan);
    result::TrialMeasurement measurement;
    measurement.strategy = proposal.name;
    measurement.step_ms = result::summarize({step.step_ms});
    measurement.peak_bytes.allocated = step.peak_bytes + (proposal.name.starts_with("plan:") ? more_bytes : 0);
    if (measurement.peak_bytes.allocated > device_bytes) measurement.outcome = TrialOutcome::device_oom;
    if (proposal.predicted)
      worst_peak_error =
          std::max(worst_peak_error, std::abs(double(proposal.predicted->peak_bytes) / double(step.peak_bytes) - 1));
    if (measurement.outcome == TrialOutcome::ok && measurement.peak_bytes.allocated <= limits_.budget_bytes)
      sample_ms[proposal.name + "@" + std::to_string(batch)] = size_.sample_ms(batch, step.step_ms);
    const auto folder = folder_.path / std::to_string(tried_.size());
    std::filesystem::create_directories(folder);
    if (proposal.costs && measurement.outcome == TrialOutcome::ok) {
      costs.plan = proposal.plan;
      if (proposal.plan.keeps_everything()) write_file(folder / "costs.json", json(costs).dump());
    }
    settings_.push_back(setting(batch));
    tried_.push_back({proposal.name, settings_.size() - 1, measurement, folder});
  }

  const planner::PlanMemoryBudgets limits_;
  const double fixed_ms_;
  const GlobalBatchOrAccumulationSteps size_;
  std::vector<InspectedModelAtShape> settings_;
  std::vector<FinishedProposal> tried_;
  ScratchFolder folder_;
};

bool has(const std::vector<std::string>& names, const std::string& name) { return std::ranges::count(names, name) > 0; }

std::string best(const BatchSweep& sweep) {
  return std::ranges::min_element(sweep.sample_ms, {}, [](const auto& one) { return one.second; })->first;
}

}  // namespace

TEST_CASE("the largest batch that a plan fits is the best if each step has a fixed cost") {
  BatchSweep sweep(9 * kGiB, 5);
  const auto names = sweep.run();
  CHECK(sweep.recorded == std::vector<std::string>{"none@2", "none@8"});
  CHECK(best(sweep).ends_with("@32"));
  CHECK(has(names, "checkpoint:full@32"));  // baseline of the gradient check
  CHECK(sweep.worst_peak_error == 0);
  CHECK(names.size() <= 8);
  CHECK(sweep.notes.find("batch 64 and larger ones are not run: no plan is predicted to fit 9 GiB") !=
        std::string::npos);
  CHECK(sweep.notes.find("not run, because of the predicted time per sample: batch 1 ") != std::string::npos);
}

TEST_CASE("larger batches are not considered once a batch gains nothing") {
  BatchSweep sweep(64 * kGiB, 0);
  const auto names = sweep.run();
  CHECK(sweep.notes.find("predicted to be no faster than half of it") != std::string::npos);
  CHECK(std::ranges::none_of(names, [](const std::string& name) { return name.ends_with("@16"); }));
}

TEST_CASE("measurements lead to smaller batches if larger ones are slower than predicted") {
  BatchSweep sweep(9 * kGiB, 5);
  sweep.slow_from = 9;
  const auto names = sweep.run();
  CHECK(best(sweep) == "none@8");
  CHECK(has(names, "plan:9 GiB@32"));
  CHECK(names.size() <= 10);
}

TEST_CASE("gradient accumulation fills the global batch and the batches are its divisors") {
  BatchSweep sweep(9 * kGiB, 5, {24, 1});
  const auto names = sweep.run();
  CHECK(sweep.recorded == std::vector<std::string>{"none@2", "none@8"});
  CHECK(best(sweep).ends_with("@24"));
  for (const std::string& name : names) CHECK(24 % std::stoi(name.substr(name.find('@') + 1)) == 0);
}

TEST_CASE("a plan that exceeds the budget is planned once more with less memory") {
  BatchSweep sweep(9 * kGiB, 5);
  sweep.more_bytes = 700 * kMiB;
  const auto names = sweep.run();
  CHECK(has(names, "plan:9 GiB@32"));
  CHECK(has(names, "plan:9 GiB-2@32"));
  CHECK(best(sweep) == "plan:9 GiB-2@32");
}

TEST_CASE("only the first batch is planned if a second cannot be recorded and a note says so") {
  BatchSweep sweep(9 * kGiB, 5);
  sweep.device_bytes = 5 * kGiB;  // only none@2 fits
  const auto names = sweep.run();
  CHECK(has(names, "none@8"));
  CHECK(has(names, "checkpoint:full@8"));
  CHECK(sweep.notes.find("no batch is predicted other than batch 2: ") != std::string::npos);
}

}  // namespace memtune::batch_proposer_test
