#include "core/planner/plan_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/planner/chain_solver.h"

namespace memtune::planner {
namespace {

constexpr int kAdjustments = 5;                            // of the chain's budget
constexpr size_t kScored = 16;                             // choices of a chain
constexpr double kLinks[] = {1, 0.5, 0};                   // of what it carries, for chains
constexpr double kNear = 0.002;                            // of the budget: a peak that near to it uses it up
constexpr double kCopyTax = 0.01;                          // as StepCosts::copy_slowdown, where that was not measured
constexpr double kGood = 1.0005;                           // of the least that is possible: no better is looked for
constexpr int kTries = 3;                                  // of a change that is of no use, in parts that are alike
constexpr int64_t kStaging = 4, kLeastStaging = 64 << 20;  // of host memory: a part; bytes
constexpr ChainEffort kEffort{.labels = 12'000, .pairs = false, .steps = 200};

}  // namespace

PlanSearch::PlanSearch(const Planner& planner, const PlanLimits& limits, Planner::Scores& scores)
    : planner_(planner),
      scores_(scores),
      limits_(limits),
      least_ms_(planner.least_ms(limits).value_or(std::numeric_limits<double>::infinity())),
      chain_(planner.make_chain()) {
  chain_.host_budget_bytes = limits.host_budget_bytes;
  chain_.disk_budget_bytes = limits.disk_budget_bytes;
  for (const Scored& scored : scores_) take_better(scored);
}

std::optional<PlanSearch::Choice> PlanSearch::fastest() {
  score_alike();
  for (const double link : kLinks) {
    for (Chain chain : chains()) {
      chain.out_bytes_per_ms *= link;
      chain.in_bytes_per_ms *= link;
      if (!is_good()) score_chain(std::move(chain));
    }
    change_parts();
  }
  if (!is_good()) change_pairs();
  return best_known();
}

PlanSearch::Choice PlanSearch::smallest() {
  score_alike();
  for (Chain& chain : chains()) {
    chain.budget_bytes = least_budget(chain).value_or(0);
    for (const ChainPlan& plan : solve_best(chain, kScored, kEffort)) score(plan.choice);
  }
  const auto least = std::ranges::min_element(scores_, {}, [this](const Scored& scored) {
    return std::pair(!limits_.kept_by(scored.second), scored.second.peak_bytes);
  });
  return least->first;
}

std::optional<PlanSearch::Choice> PlanSearch::best_known() const {
  return best_ ? std::optional(best_->first) : std::nullopt;
}

bool PlanSearch::is_good() const { return best_ && best_->second.step_ms <= kGood * least_ms_; }

const StepPrediction& PlanSearch::score(const Choice& choice) {
  const size_t known = scores_.size();
  const StepPrediction& step = planner_.score(choice, scores_);
  if (scores_.size() == known) return step;
  ++scored_;
  take_better(*scores_.find(choice));
  return step;
}

void PlanSearch::take_better(const Scored& scored) {
  if (limits_.kept_by(scored.second) && (!best_ || faster(scored.second, best_->second))) best_ = &scored;
}

// Copies that compute hides slow it down a little all the same: of two plans as fast the one that moves less is the
// better.
bool PlanSearch::faster(const StepPrediction& a, const StepPrediction& b) const {
  const double tax = planner_.costs_.copy_slowdown > 0 ? 0 : kCopyTax;
  const auto ms = [&](const StepPrediction& step) {
    return step.step_ms + tax * copy_ms(step) + kCopyTax * disk_ms(step);
  };
  return ms(a) < ms(b) || (ms(a) == ms(b) && a.peak_bytes < b.peak_bytes);
}

double PlanSearch::copy_ms(const StepPrediction& step) const {
  if (chain_.out_bytes_per_ms <= 0 || chain_.in_bytes_per_ms <= 0) return 0;
  return static_cast<double>(step.out_bytes) / chain_.out_bytes_per_ms +
         static_cast<double>(step.in_bytes) / chain_.in_bytes_per_ms;
}

double PlanSearch::disk_ms(const StepPrediction& step) const {
  if (chain_.write_bytes_per_ms <= 0 || chain_.read_bytes_per_ms <= 0) return 0;
  return static_cast<double>(step.disk_write_bytes) / chain_.write_bytes_per_ms +
         static_cast<double>(step.disk_read_bytes) / chain_.read_bytes_per_ms;
}

// All blocks treated alike, as strategies do.
void PlanSearch::score_alike() {
  int most = 0;
  for (size_t i = 0; i < planner_.parts_.size(); ++i) most = std::max(most, options(i));
  for (int option = 0; option < most; ++option) {
    Choice choice;
    for (size_t i = 0; i < planner_.parts_.size(); ++i) choice.push_back(std::min(option, options(i) - 1));
    score(choice);
  }
}

// Without the disk, and where there is one with it: then a share of host memory is what passes through to it.
std::vector<Chain> PlanSearch::chains() const {
  std::vector<Chain> chains(2, chain_);
  chains[0].write_bytes_per_ms = chains[0].read_bytes_per_ms = 0;
  if (!planner_.limits_.disk) chains.pop_back();
  if (chains.size() == 1) return chains;
  chains[1].staging_bytes =
      std::min(std::max(limits_.host_budget_bytes / kStaging, kLeastStaging), limits_.host_budget_bytes);
  chains[1].host_budget_bytes = std::max<int64_t>(1, limits_.host_budget_bytes - chains[1].staging_bytes);
  return chains;
}

// The chain's peaks are rough: what its best choice takes more or less than the budget is its next budget's. So is
// what it knows of waits: slower links give choices that move less.
void PlanSearch::score_chain(Chain chain) {
  const int64_t base = planner_.costs_.runs.empty() ? 0 : planner_.costs_.runs.front().before_bytes;
  chain.budget_bytes = limits_.budget_bytes - base;
  for (int i = 0; i < kAdjustments && !is_good(); ++i) {
    if (const auto least = least_budget(chain); !least || *least > chain.budget_bytes) {
      if (!least || i > 0) return;
      chain.budget_bytes = *least;
    }
    const std::vector<ChainPlan> plans = solve_best(chain, kScored, kEffort);
    if (plans.empty()) return;
    for (const ChainPlan& plan : plans) score(plan.choice);
    const int64_t more = score(plans.front().choice).peak_bytes - limits_.budget_bytes;
    if (std::abs(static_cast<double>(more)) < kNear * static_cast<double>(limits_.budget_bytes)) return;
    chain.budget_bytes -= more;
  }
}

// Alone: less is made again, or less moves and copies are waited for.
bool PlanSearch::may_be_faster(size_t part, int option) const {
  const BlockOption &now = option_of(part, best_->first[part]), &then = option_of(part, option);
  if (then.recompute_ms < now.recompute_ms) return true;
  if (then.disk_bytes < now.disk_bytes) return best_->second.disk_read_bytes + best_->second.disk_write_bytes > 0;
  return then.moved_bytes < now.moved_bytes &&
         (best_->second.wait_ms > 0 || planner_.costs_.copy_slowdown > 0 || then.recompute_ms == now.recompute_ms);
}

// From both ends: what a block's copies hide under depends on where it is.
std::vector<size_t> PlanSearch::parts_in_turn() const {
  std::vector<size_t> parts;
  for (size_t i = 0, j = planner_.parts_.size(); i < j;) {
    parts.push_back(i++);
    if (i < j) parts.push_back(--j);
  }
  return parts;
}

bool PlanSearch::is_better(const Choice& choice) {
  const Scored* before = best_;
  score(choice);
  return best_ != before;
}

PlanSearch::Change PlanSearch::change(size_t part, int option) const {
  return {planner_.parts_[part].structure, best_->first[part], option};
}

// One part after the other, as long as that makes the step faster, or as fast with less that moves. What was of no use
// to some parts is not tried with all that are like them.
void PlanSearch::change_parts() {
  for (const Scored* before = nullptr; best_ && best_ != before;) {
    before = best_;
    std::map<Change, int> useless;
    for (const size_t part : parts_in_turn())
      for (int option = 0; option < options(part) && may_score(); ++option) {
        if (!may_be_faster(part, option)) continue;
        int& failed = useless[change(part, option)];
        if (failed < kTries) failed = is_better(changed(best_->first, part, option)) ? 0 : failed + 1;
      }
  }
}

// What one part gives up another takes.
void PlanSearch::change_pairs() {
  for (const Scored* before = nullptr; best_ && best_ != before && may_score() && !is_good();) {
    before = best_;
    std::map<std::pair<Change, Change>, int> useless;
    for (const size_t faster : parts_in_turn())
      for (const size_t other : parts_in_turn()) {
        if (other != faster) change_pair(faster, other, useless);
      }
  }
}

void PlanSearch::change_pair(size_t faster, size_t other, std::map<std::pair<Change, Change>, int>& useless) {
  const auto resident = [this](size_t part, int option) { return option_of(part, option).resident_bytes; };
  const auto in_host = [this](size_t part, int option) {
    return option_of(part, option).moved_bytes - option_of(part, option).disk_bytes;
  };
  const auto gives_up = [&](int option) {
    const int now = best_->first[other];
    return resident(other, option) < resident(other, now) ||
           (planner_.limits_.disk && in_host(other, option) < in_host(other, now));
  };
  for (int a = 0; a < options(faster); ++a) {
    if (!may_be_faster(faster, a)) continue;
    for (int b = 0; b < options(other) && may_score(); ++b) {
      if (!gives_up(b)) continue;
      int& failed = useless[{change(faster, a), change(other, b)}];
      if (failed >= kTries) continue;
      failed = is_better(changed(changed(best_->first, faster, a), other, b)) ? 0 : failed + 1;
    }
  }
}

PlanSearch::Choice PlanSearch::changed(Choice choice, size_t part, int option) const {
  choice[part] = option;
  return choice;
}

}  // namespace memtune::planner
