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

namespace memtune::sweep {
namespace {

using nlohmann::json;
using planner::PlannedStep;
using planner::Planner;
using planner::StepPrediction;
using result::Measurement;
using result::Outcome;

constexpr int kCorrections = 2;
constexpr size_t kRivals = 2;          // strategies that are run beside the plan
constexpr double kNear = 1.05;         // of the plan's time on paper: what is slower cannot win
constexpr double kWorthATrial = 0.99;  // of the best measured time: a corrected plan has to be that much faster
constexpr double kSlowestLink = 0.3;   // of what the link carries alone, beside compute

bool worked(const Measurement& measurement) { return measurement.outcome == Outcome::ok; }

result::Predicted predicted(const StepPrediction& step) { return {step.step_ms, step.peak_bytes}; }

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
      propose(candidates_.all().front());
    else if (!planner_)
      begin(*mine.front());
    else if (corrections_ < kCorrections)
      correct(mine);
    return std::exchange(proposals_, {});
  }

  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  void propose(const Candidate& candidate) {
    proposals_.push_back({candidate.name(), index_, candidate.make_plan(program_)});
  }

  void propose(const PlannedStep& step) {
    planned_.push_back(step);
    proposals_.push_back({step.plan.strategy, index_, step.plan, predicted(step.predicted)});
  }

  void begin(const Tried& baseline) {
    if (done_) return;
    done_ = true;
    if (!worked(baseline.measurement))
      return try_all(baseline.name + " ended in " + to_string(baseline.measurement.outcome));
    if (baseline.measurement.peak_bytes.allocated <= limits_.budget_bytes) {
      notes_.push_back(baseline.name + " keeps the budget of " + format_bytes(limits_.budget_bytes) +
                       ": no plan is looked for");
      return;
    }
    const auto costs = read_costs(baseline.folder, program_);
    if (!costs) return try_all("what a step of " + baseline.name + " costs was not recorded");
    planner_ = std::make_unique<Planner>(program_, *costs);
    const auto planned = planner_->plan(limits_, name());
    if (planned) propose(*planned);
    propose_rivals(planned);
    if (planned) return;
    const PlannedStep least = planner_->least_memory("plan:least");
    notes_.push_back("no plan keeps " + format_bytes(limits_.budget_bytes) + " on paper; the least takes " +
                     format_bytes(least.predicted.peak_bytes));
    propose(least);
  }

  void try_all(const std::string& why) {
    notes_.push_back(why + ", so there is nothing to plan from: all strategies are tried");
    for (size_t i = 1; i < candidates_.all().size(); ++i) propose(candidates_.all()[i]);
  }

  // On paper they keep the budget and come near the plan; the fastest of them. The others are named.
  void propose_rivals(const std::optional<PlannedStep>& planned) {
    struct Rival {
      const Candidate* candidate;
      config::Plan plan;
      StepPrediction step;
    };
    std::vector<Rival> rivals;
    std::vector<std::string> too_large, too_slow;
    for (size_t i = 1; i < candidates_.all().size(); ++i) {
      const Candidate& candidate = candidates_.all()[i];
      config::Plan plan = candidate.make_plan(program_);
      const StepPrediction step = planner_->predict(plan);
      if (step.peak_bytes > limits_.budget_bytes)
        too_large.push_back(candidate.name() + " " + format_bytes(step.peak_bytes));
      else
        rivals.push_back({&candidate, std::move(plan), step});
    }
    std::ranges::stable_sort(rivals, {}, [](const Rival& rival) { return rival.step.step_ms; });
    for (size_t i = 0; i < rivals.size(); ++i) {
      const Rival& rival = rivals[i];
      if (i < kRivals && (!planned || rival.step.step_ms <= kNear * planned->predicted.step_ms))
        proposals_.push_back({rival.candidate->name(), index_, rival.plan, predicted(rival.step)});
      else
        too_slow.push_back(rival.candidate->name() + " " + ms_text(rival.step.step_ms));
    }
    if (!too_large.empty()) notes_.push_back("not run, for their peaks on paper: " + join(too_large, ", "));
    if (!too_slow.empty()) notes_.push_back("not run, for they are slower on paper: " + join(too_slow, ", "));
  }

  // What the last plan showed that the paper did not know.
  void correct(const std::vector<const Tried*>& tried) {
    if (planned_.empty()) return;
    const PlannedStep& last = planned_.back();
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
    if (!broke && again->predicted.step_ms > kWorthATrial * measured.step_ms.median) return;
    propose(*again);
  }

  // So that the plan takes on paper what it took.
  void slow_link(const config::Plan& plan, double step_ms) {
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
  std::unique_ptr<Planner> planner_;
  std::vector<PlannedStep> planned_;
  int corrections_ = 0;
  bool done_ = false;
  std::vector<Proposal> proposals_;
  std::vector<std::string> notes_;
};

class PlanProposer : public Proposer {
 public:
  PlanProposer(const Candidates& candidates, const std::vector<Setting>& settings, int64_t budget_bytes,
               int64_t host_budget_bytes) {
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
    for (SettingSearch& search : searches_)
      for (std::string& note : search.take_notes()) notes.push_back(std::move(note));
    return notes;
  }

 private:
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
