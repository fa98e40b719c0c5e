#include "core/plan/planner/block_option_plan_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/plan/planner/chain_solver.h"

namespace memtune::planner {
namespace {

constexpr int kAdjustments = 5;           // of the chain's budget
constexpr size_t kScored = 8;             // choices taken from a chain
constexpr double kLinks[] = {1, 0.5, 0};  // shares of the PCIe bandwidth that chains assume
constexpr double kNear = 0.002;           // of the budget: a peak this near uses it up
constexpr double kCopyTax = 0.01;         // stands for RecordedStepCosts::copy_slowdown if that was not measured
constexpr int kTries = 3;                 // of a change that fails, in parts that are alike; then it is skipped
constexpr double kUnlike = 0.1;           // by which parts that are alike may differ in time
constexpr size_t kAhead = 31;             // changes predicted ahead, at most
constexpr size_t kMaxPairs = 200;         // predictions of changes of two parts in one search
constexpr int64_t kStaging = 4, kMinStaging = 64 << 20;  // host memory that stages writes: a fraction; least bytes
constexpr ChainSolverEffortOptions kEffort{.labels = 12'000, .pairs = false, .steps = 200};

std::vector<std::vector<int>> choices_of(const std::vector<ChainSolution>& solutions) {
  std::vector<std::vector<int>> choices;
  for (const ChainSolution& solution : solutions) choices.push_back(solution.choice);
  return choices;
}

}  // namespace

BlockOptionPlanSearch::BlockOptionPlanSearch(const Planner& planner, const PlanMemoryBudgets& limits,
                                             Planner::Scores& scores, int variant)
    : planner_(planner),
      scores_(scores),
      limits_(limits),
      variant_(variant),
      least_ms_(planner.least_ms(limits, variant).value_or(std::numeric_limits<double>::infinity())),
      chain_(planner.make_chain()) {
  chain_.host_budget_bytes = limits.host_budget_bytes;
  chain_.disk_budget_bytes = limits.disk_budget_bytes;
  for (const Scored& scored : scores_)
    if (scored.first.back() == variant_) take_better(scored);
}

std::optional<BlockOptionPlanSearch::Choice> BlockOptionPlanSearch::fastest() {
  score_alike();
  for (const double link : kLinks) {
    for (ChainPlanningProblem chain : chains()) {
      chain.out_bytes_per_ms *= link;
      chain.in_bytes_per_ms *= link;
      if (!is_good()) score_chain(std::move(chain));
    }
    change_parts();
  }
  if (!is_good()) change_pairs();
  return best_ ? std::optional(best_->first) : std::nullopt;
}

std::optional<BlockOptionPlanSearch::Choice> BlockOptionPlanSearch::fastest_alike() {
  score_alike();
  return best_ ? std::optional(best_->first) : std::nullopt;
}

BlockOptionPlanSearch::Choice BlockOptionPlanSearch::smallest() {
  score_alike();
  for (ChainPlanningProblem& chain : chains()) {
    chain.budget_bytes = least_budget(chain).value_or(0);
    score_all(choices_of(solve_best(chain, kScored, kEffort)));
  }
  const auto least = std::ranges::min_element(scores_, {}, [this](const Scored& scored) {
    return std::pair(!limits_.satisfied_by(scored.second), scored.second.required_bytes);
  });
  return least->first;
}

std::vector<BlockOptionPlanSearch::Choice> BlockOptionPlanSearch::known(size_t most) const {
  std::vector<const Scored*> fitting;
  const auto* placement = &planner_.placement(variant_);
  for (const Scored& scored : scores_)
    if (limits_.satisfied_by(scored.second) && &planner_.placement(scored.first.back()) == placement)
      fitting.push_back(&scored);
  most = std::min(most, fitting.size());
  std::ranges::partial_sort(fitting, fitting.begin() + static_cast<std::ptrdiff_t>(most),
                            [this](const Scored* a, const Scored* b) { return faster(a->second, b->second); });
  std::vector<Choice> choices;
  for (size_t i = 0; i < most; ++i) choices.push_back(fitting[i]->first);
  return choices;
}

bool BlockOptionPlanSearch::is_good() const { return best_ && best_->second.step_ms <= Planner::kGood * least_ms_; }

const StepPrediction& BlockOptionPlanSearch::score(const Choice& choice) {
  const auto [scored, is_new] = scores_.try_emplace(choice);
  if (!is_new) return scored->second;
  const auto ahead = ahead_.find(choice);
  scored->second = ahead != ahead_.end() ? ahead->second : planner_.predict_choice(choice);
  ++scored_;
  take_better(*scored);
  return scored->second;
}

const StepPrediction& BlockOptionPlanSearch::score_parts(Choice parts) {
  parts.push_back(variant_);
  return score(parts);
}

void BlockOptionPlanSearch::score_all(std::vector<Choice> choices) {
  for (Choice& choice : choices) choice.push_back(variant_);
  predict_ahead(choices, CoreSemaphore::Helpers(planner_.cores_, choices.size()));
  for (const Choice& choice : choices) score(choice);
}

// Without helpers, each choice is predicted when the search comes to it.
void BlockOptionPlanSearch::predict_ahead(std::vector<Choice> choices, const CoreSemaphore::Helpers& helpers) {
  if (helpers.count() == 0) return;
  std::ranges::sort(choices);
  choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
  std::erase_if(choices, [this](const Choice& choice) { return scores_.contains(choice) || ahead_.contains(choice); });
  std::vector<StepPrediction> steps(choices.size());
  helpers.run(choices.size(), [&](size_t i) { steps[i] = planner_.predict_choice(choices[i]); });
  for (size_t i = 0; i < choices.size(); ++i) ahead_.emplace(std::move(choices[i]), steps[i]);
}

void BlockOptionPlanSearch::take_better(const Scored& scored) {
  if (limits_.satisfied_by(scored.second) && (!best_ || faster(scored.second, best_->second))) best_ = &scored;
}

// Overlapped copies still slow compute down a little. If two plans are equally fast, the one that copies less is
// better.
bool BlockOptionPlanSearch::faster(const StepPrediction& a, const StepPrediction& b) const {
  const double tax = planner_.costs_.copy_slowdown > 0 ? 0 : kCopyTax;
  const auto ms = [&](const StepPrediction& step) {
    return step.step_ms + tax * copy_ms(step) + kCopyTax * disk_ms(step);
  };
  return ms(a) < ms(b) || (ms(a) == ms(b) && a.required_bytes < b.required_bytes);
}

double BlockOptionPlanSearch::copy_ms(const StepPrediction& step) const {
  if (chain_.out_bytes_per_ms <= 0 || chain_.in_bytes_per_ms <= 0) return 0;
  return static_cast<double>(step.out_bytes) / chain_.out_bytes_per_ms +
         static_cast<double>(step.in_bytes) / chain_.in_bytes_per_ms;
}

double BlockOptionPlanSearch::disk_ms(const StepPrediction& step) const {
  if (chain_.write_bytes_per_ms <= 0 || chain_.read_bytes_per_ms <= 0) return 0;
  return static_cast<double>(step.disk_write_bytes) / chain_.write_bytes_per_ms +
         static_cast<double>(step.disk_read_bytes) / chain_.read_bytes_per_ms;
}

// Gives all blocks the same option, as strategies do.
void BlockOptionPlanSearch::score_alike() {
  int most = 0;
  for (size_t i = 0; i < planner_.parts_.size(); ++i) most = std::max(most, options(i));
  std::vector<Choice> choices(static_cast<size_t>(most));
  for (int option = 0; option < most; ++option)
    for (size_t i = 0; i < planner_.parts_.size(); ++i)
      choices[static_cast<size_t>(option)].push_back(std::min(option, options(i) - 1));
  score_all(std::move(choices));
}

// A chain without the disk and, if there is a disk, one with it. The latter uses a share of host memory to stage
// writes.
std::vector<ChainPlanningProblem> BlockOptionPlanSearch::chains() const {
  std::vector<ChainPlanningProblem> chains(2, chain_);
  chains[0].write_bytes_per_ms = chains[0].read_bytes_per_ms = 0;
  if (!planner_.limits_.disk) chains.pop_back();
  if (chains.size() == 1) return chains;
  chains[1].staging_bytes =
      std::min(std::max(limits_.host_budget_bytes / kStaging, kMinStaging), limits_.host_budget_bytes);
  chains[1].host_budget_bytes = std::max<int64_t>(1, limits_.host_budget_bytes - chains[1].staging_bytes);
  return chains;
}

// Peaks of the chain are rough. The next chain's budget is therefore corrected by the difference of the best choice's
// peak to the budget. Waits of the chain are rough too: a slower link gives choices that offload less.
void BlockOptionPlanSearch::score_chain(ChainPlanningProblem chain) {
  const int64_t base = planner_.costs_.runs.empty() ? 0 : planner_.costs_.runs.front().before_bytes;
  chain.budget_bytes = limits_.budget_bytes - base - planner_.costs_.device_overhead_bytes;
  for (int i = 0; i < kAdjustments && !is_good(); ++i) {
    if (const auto least = least_budget(chain); !least || *least > chain.budget_bytes) {
      if (!least || i > 0) return;
      chain.budget_bytes = *least;
    }
    const std::vector<ChainSolution> plans = solve_best(chain, kScored, kEffort);
    if (plans.empty()) return;
    score_all(choices_of(plans));
    const int64_t more = score_parts(plans.front().choice).required_bytes - limits_.budget_bytes;
    if (std::abs(static_cast<double>(more)) < kNear * static_cast<double>(limits_.budget_bytes)) return;
    chain.budget_bytes -= more;
  }
}

// Whether the option alone may make the step faster: it recomputes less, or it offloads less while compute waits for
// copies.
bool BlockOptionPlanSearch::may_be_faster(size_t part, int option) const {
  const BlockOption &now = option_of(part, best_->first[part]), &then = option_of(part, option);
  if (then.recompute_ms < now.recompute_ms) return true;
  if (then.disk_bytes < now.disk_bytes) return best_->second.disk_read_bytes + best_->second.disk_write_bytes > 0;
  return then.offloaded_bytes < now.offloaded_bytes &&
         (best_->second.wait_ms > 0 || planner_.costs_.copy_slowdown > 0 || then.recompute_ms == now.recompute_ms);
}

// From both ends in turn, because the overlap of copies depends on the position of a block.
std::vector<size_t> BlockOptionPlanSearch::parts_in_turn() const {
  std::vector<size_t> parts;
  for (size_t i = 0, j = planner_.parts_.size(); i < j;) {
    parts.push_back(i++);
    if (i < j) parts.push_back(--j);
  }
  return parts;
}

bool BlockOptionPlanSearch::is_better(const Choice& choice) {
  const Scored* before = best_;
  score(choice);
  return best_ != before;
}

BlockOptionPlanSearch::PartKind BlockOptionPlanSearch::kind(const PartOption& change) const {
  return {planner_.parts_[change.part].structure, best_->first[change.part], change.option};
}

BlockOptionPlanSearch::Kind BlockOptionPlanSearch::kind(const Change& change) const {
  return {kind(change.first), change.second ? kind(*change.second) : PartKind()};
}

BlockOptionPlanSearch::Choice BlockOptionPlanSearch::changed(const Change& change) const {
  Choice choice = best_->first;
  choice[change.first.part] = change.first.option;
  if (change.second) choice[change.second->part] = change.second->option;
  return choice;
}

// Lower bound of the extra time over the best step, by what the parts recompute and copy. It assumes that waits vanish,
// those for the host too. Parts that are alike recompute in times that differ a little.
double BlockOptionPlanSearch::least_more_ms(const Change& change) const {
  const plan::RecordedStepCosts& costs = planner_.costs_;
  const double rerun_ms = costs.rerun_ratio * planner_.model_->tables().scale;
  const double tax = costs.copy_slowdown > 0 ? std::min(1.0, costs.copy_slowdown) : kCopyTax;
  const double out_ms = chain_.out_bytes_per_ms > 0 ? 1 / chain_.out_bytes_per_ms : 0;
  const double in_ms = chain_.in_bytes_per_ms > 0 ? 1 / chain_.in_bytes_per_ms : 0;
  double ms = 0;
  const auto add = [&](const PartOption& to) {
    const BlockOption &now = option_of(to.part, best_->first[to.part]), &then = option_of(to.part, to.option);
    const double more_ms = then.recompute_ms - now.recompute_ms;
    ms += rerun_ms * (more_ms - kUnlike * std::abs(more_ms));
    ms += tax * (out_ms + in_ms) * static_cast<double>(then.offloaded_bytes - now.offloaded_bytes);
  };
  add(change.first);
  if (change.second) add(*change.second);
  return costs.passes * (ms - planner_.model_->tables().idle_ms) - best_->second.wait_ms;
}

// Lower bound of the extra bytes at the best step's peak. Parts behind the peak are not resident then, or no more.
int64_t BlockOptionPlanSearch::least_more_bytes(const Change& change) const {
  const size_t peak = planner_.part_of_entry(best_->second.peak_entry);
  const auto more_bytes = [&](const PartOption& to) {
    const int64_t bytes =
        option_of(to.part, to.option).resident_bytes - option_of(to.part, best_->first[to.part]).resident_bytes;
    if (to.part > peak) return int64_t{0};
    return to.part == peak ? std::min<int64_t>(0, bytes) : bytes;
  };
  return more_bytes(change.first) + (change.second ? more_bytes(*change.second) : 0);
}

bool BlockOptionPlanSearch::may_help(const Change& change) const {
  if (!may_be_faster(change.first.part, change.first.option)) return false;
  if (change.second && !gives_up(*change.second)) return false;
  return least_more_ms(change) <= 0 && least_more_bytes(change) <= limits_.budget_bytes - best_->second.required_bytes;
}

// Whether the option takes less of a memory that has a limit.
bool BlockOptionPlanSearch::gives_up(const PartOption& change) const {
  const BlockOption &now = option_of(change.part, best_->first[change.part]),
                    &then = option_of(change.part, change.option);
  return then.resident_bytes < now.resident_bytes ||
         (planner_.limits_.disk && then.offloaded_bytes - then.disk_bytes < now.offloaded_bytes - now.disk_bytes);
}

// Tries one change after the other, each from the best choice so far. A change that did not help some parts is not
// tried with all parts like them.
void BlockOptionPlanSearch::try_changes(const std::vector<Change>& changes) {
  std::map<Kind, int> failed;
  const auto is_tried = [&](const Change& change) { return may_help(change) && failed[kind(change)] < kTries; };
  for (size_t next = 0; next < changes.size() && may_score();) {
    const CoreSemaphore::Helpers helpers(planner_.cores_, kAhead);
    std::vector<size_t> tried;
    std::vector<Choice> choices;
    for (; next < changes.size() && tried.size() <= helpers.count(); ++next) {
      if (!is_tried(changes[next])) continue;
      tried.push_back(next);
      choices.push_back(changed(changes[next]));
    }
    predict_ahead(choices, helpers);
    for (size_t i = 0; i < tried.size() && may_score(); ++i) {
      int& failures = failed[kind(changes[tried[i]])];
      if (failures >= kTries) continue;
      const bool better = is_better(choices[i]);
      failures = better ? 0 : failures + 1;
      if (!better) continue;
      next = tried[i] + 1;  // what was predicted ahead was for the choice before
      break;
    }
  }
}

// Changes one part after the other while the step gets faster, or equally fast with less copied.
void BlockOptionPlanSearch::change_parts() {
  std::vector<Change> changes;
  for (const size_t part : parts_in_turn())
    for (int option = 0; option < options(part); ++option) changes.push_back({{part, option}});
  for (const Scored* before = nullptr; best_ && best_ != before;) {
    before = best_;
    try_changes(changes);
  }
}

// One part takes the memory that another gives up.
void BlockOptionPlanSearch::change_pairs() {
  std::vector<Change> changes;
  for (const size_t faster : parts_in_turn())
    for (const size_t other : parts_in_turn())
      for (int a = 0; other != faster && a < options(faster); ++a)
        for (int b = 0; b < options(other); ++b) changes.push_back({{faster, a}, PartOption{other, b}});
  max_scores_ = std::min(max_scores_, scored_ + kMaxPairs);
  for (const Scored* before = nullptr; best_ && best_ != before && may_score() && !is_good();) {
    before = best_;
    try_changes(changes);
  }
}

}  // namespace memtune::planner
