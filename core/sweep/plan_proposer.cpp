#include "core/sweep/plan_proposer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/planner/planner.h"
#include "core/result/row.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;
using planner::PlannedStep;
using planner::Planner;
using planner::StepPrediction;
using result::Measurement;
using result::Outcome;

constexpr int kCorrections = 2;
constexpr double kWorthATrial = 0.99;  // of the last plan on corrected paper: another has to be that much faster
constexpr double kSlowestLink = 0.3;   // of what the link carries alone, beside compute
constexpr double kSameStep = 0.02;     // of the baseline's peak, that the recorded step may be away from the measured
constexpr char kOfEveryTrainer[] = "checkpoint:full";

bool worked(const Measurement& measurement) { return measurement.outcome == Outcome::ok; }

result::Predicted predicted(const StepPrediction& step) { return {step.step_ms, step.peak_bytes}; }
result::Predicted predicted(const PlannedStep& step) {
  return {step.predicted.step_ms, step.predicted.peak_bytes, step.least_ms};
}

// The search for the plan of one setting.
class SettingSearch {
 public:
  SettingSearch(const Candidates& candidates, const Setting& setting, size_t index, int64_t budget_bytes,
                int64_t host_budget_bytes)
      : candidates_(candidates),
        program_(setting.facts.program),
        index_(index),
        limits_{budget_bytes, host_budget_bytes},
        goal_bytes_(budget_bytes) {}

  std::vector<Proposal> next(std::span<const Tried> tried) {
    proposals_.clear();
    std::vector<const Tried*> mine;
    for (const Tried& one : tried)
      if (one.setting == index_) mine.push_back(&one);
    if (mine.empty())
      first();
    else if (!planner_)
      begin(*mine.front());
    else if (corrections_ < kCorrections)
      correct(mine);
    return std::exchange(proposals_, {});
  }

  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

  // On the paper as it is now.
  const std::vector<result::Predicted>& frontier() {
    if (!planner_ || !frontier_.empty()) return frontier_;
    const int64_t host_bytes = limits_.host_budget_bytes;
    const int64_t least = planner_->least_memory(host_bytes, "").predicted.peak_bytes;
    const auto rungs = planner::rungs(planner_->predict({}).peak_bytes, least, host_bytes);
    for (const auto& step : planner_->ladder(rungs, [](const planner::PlanLimits&) { return ""; }))
      if (step) frontier_.push_back(predicted(*step));
    std::ranges::sort(frontier_, {}, &result::Predicted::peak_bytes);
    const auto same = [](const auto& a, const auto& b) { return a.peak_bytes == b.peak_bytes; };
    frontier_.erase(std::unique(frontier_.begin(), frontier_.end(), same), frontier_.end());
    return frontier_;
  }

 private:
  struct Strategy {
    std::string name;
    config::Plan plan;
    StepPrediction step;  // on paper
  };

  void propose(const PlannedStep& step) {
    planned_.push_back(step);
    proposals_.push_back({step.plan.strategy, index_, step.plan, predicted(step)});
  }
  void propose(const Strategy& strategy) {
    proposals_.push_back({strategy.name, index_, strategy.plan, predicted(strategy.step)});
  }

  // The baseline, and the plans of all others, so that what the model does not have is told before anything runs.
  void first() {
    const Candidate& baseline = candidates_.all().front();
    proposals_.push_back({baseline.name(), index_, baseline.make_plan(program_), {}});
    for (size_t i = 1; i < candidates_.all().size(); ++i) try {
        const Candidate& candidate = candidates_.all()[i];
        strategies_.push_back({candidate.name(), candidate.make_plan(program_), {}});
      } catch (const UsageError& error) {
        notes_.push_back(std::string("left out: ") + error.what());
      }
  }

  void begin(const Tried& baseline) {
    if (std::exchange(begun_, true)) return;
    const Measurement& measured = baseline.measurement;
    if (!worked(measured)) return try_all(baseline.name + " ended in " + to_string(measured.outcome));
    if (measured.peak_bytes.allocated <= limits_.budget_bytes) {
      notes_.push_back(baseline.name + " keeps the budget of " + format_bytes(limits_.budget_bytes) +
                       ": no plan is looked for");
      return;
    }
    const auto costs = read_costs(baseline.folder, program_);
    if (!costs) return try_all("what a step of " + baseline.name + " costs is not known, or steps run other ops");
    auto planner = std::make_unique<Planner>(program_, *costs);
    const auto peak = static_cast<double>(measured.peak_bytes.allocated);
    if (std::abs(static_cast<double>(planner->predict({}).peak_bytes) / peak - 1) > kSameStep)
      return try_all("the step whose costs were recorded is not the one that was measured");
    planner_ = std::move(planner);
    plan_first();
  }

  void try_all(const std::string& why) {
    notes_.push_back(why + ", so there is nothing to plan from: all strategies are tried");
    for (const Strategy& strategy : strategies_) proposals_.push_back({strategy.name, index_, strategy.plan, {}});
  }

  void plan_first() {
    const auto planned = planner_->plan(limits_, name());
    if (planned) propose(*planned);
    propose_rivals();
    if (planned) return;
    const PlannedStep least = planner_->least_memory(limits_.host_budget_bytes, "plan:least");
    notes_.push_back("no plan keeps " + format_bytes(limits_.budget_bytes) + " on paper; the least takes " +
                     format_bytes(least.predicted.peak_bytes));
    if (!least.plan.placements.empty()) propose(least);
  }

  // Of the strategies that keep the limits on paper: the fastest, the fastest that moves nothing, and the one that
  // every trainer has. The others are named.
  void propose_rivals() {
    std::vector<Strategy> rivals;
    std::vector<std::string> too_large, too_slow;
    for (Strategy& strategy : strategies_) {
      strategy.step = planner_->predict(strategy.plan);
      if (limits_.kept_by(strategy.step))
        rivals.push_back(strategy);
      else
        too_large.push_back(strategy.name + " " + format_bytes(strategy.step.peak_bytes));
    }
    std::ranges::stable_sort(rivals, {}, [](const Strategy& rival) { return rival.step.step_ms; });
    const auto still = std::ranges::find(rivals, 0, [](const Strategy& rival) { return rival.step.out_bytes; });
    for (auto rival = rivals.begin(); rival != rivals.end(); ++rival)
      if (rival == rivals.begin() || rival == still || rival->name == kOfEveryTrainer)
        propose(*rival);
      else
        too_slow.push_back(rival->name + " " + ms_text(rival->step.step_ms));
    if (!too_large.empty())
      notes_.push_back("not run, for the memory that they take on paper: " + join(too_large, ", "));
    if (!too_slow.empty()) notes_.push_back("not run, for they are slower on paper: " + join(too_slow, ", "));
  }

  // What the last plan showed that the paper did not know.
  void correct(const std::vector<const Tried*>& tried) {
    if (planned_.empty()) return;
    const PlannedStep last = planned_.back();
    const auto found = std::ranges::find_if(tried, [&](const Tried* one) { return one->name == last.plan.strategy; });
    if (found == tried.end() || !worked((*found)->measurement)) return;
    const Measurement& measured = (*found)->measurement;
    ++corrections_;
    const int64_t more = measured.peak_bytes.allocated - last.predicted.peak_bytes;
    const bool broke = measured.peak_bytes.allocated > limits_.budget_bytes;
    if (broke) goal_bytes_ -= std::max<int64_t>(more, 1);
    const bool slower = last.predicted.out_bytes > 0 && measured.step_ms.median > 1.02 * last.predicted.step_ms;
    if (slower) slow_link(last.plan, measured.step_ms.median);
    if (!broke && !slower) return;
    const auto again = planner_->plan({goal_bytes_, limits_.host_budget_bytes}, name());
    if (!again || again->plan.placements == last.plan.placements) return;
    if (!broke && again->predicted.step_ms > kWorthATrial * planner_->predict(last.plan).step_ms) return;
    propose(*again);
  }

  // So that the plan takes on paper what it took.
  void slow_link(const config::Plan& plan, double step_ms) {
    frontier_.clear();
    double low = kSlowestLink, high = 1;
    for (int i = 0; i < 8; ++i) {
      const double middle = (low + high) / 2;
      planner_->scale_link(middle);
      (planner_->predict(plan).step_ms > step_ms ? low : high) = middle;
    }
  }

  std::string name() const {
    return "plan:" + format_bytes(limits_.budget_bytes) +
           (planned_.empty() ? "" : "-" + std::to_string(planned_.size() + 1));
  }

  const Candidates& candidates_;
  const config::ProgramFacts& program_;
  const size_t index_;
  const planner::PlanLimits limits_;
  int64_t goal_bytes_;  // what the paper is asked for, so that the budget is kept
  std::vector<Strategy> strategies_;
  std::unique_ptr<Planner> planner_;
  std::vector<PlannedStep> planned_;
  std::vector<result::Predicted> frontier_;  // empty: not known, or no longer
  int corrections_ = 0;
  bool begun_ = false;
  std::vector<Proposal> proposals_;
  std::vector<std::string> notes_;
};

class PlanProposer : public Proposer {
 public:
  PlanProposer(const Candidates& candidates, const std::vector<Setting>& settings, int64_t budget_bytes,
               int64_t host_budget_bytes)
      : settings_(settings) {
    for (size_t i = 0; i < settings.size(); ++i)
      searches_.emplace_back(candidates, settings[i], i, budget_bytes, host_budget_bytes);
  }

  std::vector<Proposal> next(std::span<const Tried> tried) override {
    std::vector<Proposal> proposals;
    for (SettingSearch& search : searches_)
      for (Proposal& proposal : search.next(tried)) proposals.push_back(std::move(proposal));
    return proposals;
  }

  std::vector<std::string> take_notes() override {
    std::vector<std::string> notes;
    for (size_t i = 0; i < searches_.size(); ++i)
      for (const std::string& note : searches_[i].take_notes()) notes.push_back(whose(i) + note);
    return notes;
  }

  std::vector<result::Predicted> frontier(size_t setting) override { return searches_.at(setting).frontier(); }

 private:
  // "batch 4: ", where there are several settings.
  std::string whose(size_t setting) const {
    if (searches_.size() == 1) return "";
    return result::axes_text(settings_[setting].batch, settings_[setting].sequence) + ": ";
  }

  const std::vector<Setting>& settings_;
  std::vector<SettingSearch> searches_;
};

}  // namespace

std::optional<config::StepCosts> read_costs(const std::filesystem::path& trial_folder,
                                            const config::ProgramFacts& program) try {
  const auto costs = parse_json(read_file(trial_folder / "costs.json")).get<config::StepCosts>();
  const auto known = [&](const config::StepCosts::Run& run) { return run.op < static_cast<int>(program.ops.size()); };
  if (costs.runs.empty() || costs.moments.empty() || !std::ranges::all_of(costs.runs, known)) return {};
  return costs;
} catch (const Error&) {
  return {};
} catch (const json::exception&) {
  return {};
}

MakeProposer propose_plans(int64_t budget_bytes, int64_t host_budget_bytes) {
  return [=](const Candidates& candidates, const std::vector<Setting>& settings) {
    return std::make_unique<PlanProposer>(candidates, settings, budget_bytes, host_budget_bytes);
  };
}

}  // namespace memtune::sweep
