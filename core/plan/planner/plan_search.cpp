#include "core/plan/planner/plan_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/plan/planner/chain_solver.h"

namespace memtune::planner {
namespace {

constexpr int kAdjustments = 5;           // of the chain's budget
constexpr size_t kScored = 16;            // choices taken from a chain
constexpr double kLinks[] = {1, 0.5, 0};  // shares of the PCIe bandwidth that chains assume
constexpr double kNear = 0.002;           // of the budget: a peak this near uses it up
constexpr double kCopyTax = 0.01;         // stands for StepCosts::copy_slowdown if that was not measured
constexpr double kGood = 1.0005;          // of the lower bound: fast enough, the search ends
constexpr int kTries = 3;                 // of a change that fails, in parts that are alike; then it is skipped
constexpr int64_t kStaging = 4, kMinStaging = 64 << 20;  // host memory that stages writes: a fraction; least bytes
constexpr ChainSearchEffort kEffort{.labels = 12'000, .pairs = false, .steps = 200};

}  // namespace

PlanSearch::PlanSearch(const Planner& planner, const PlanLimits& limits, Planner::Scores& scores, int stash)
    : planner_(planner),
      scores_(scores),
      limits_(limits),
      stash_(stash),
      least_ms_(planner.least_ms(limits).value_or(std::numeric_limits<double>::infinity())),
      chain_(planner.make_chain()) {
  chain_.host_budget_bytes = limits.host_budget_bytes;
  chain_.disk_budget_bytes = limits.disk_budget_bytes;
  for (const Scored& scored : scores_)
    if (scored.first.back() == stash_) take_better(scored);
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
  return best_ ? std::optional(best_->first) : std::nullopt;
}

PlanSearch::Choice PlanSearch::smallest() {
  score_alike();
  for (Chain& chain : chains()) {
    chain.budget_bytes = least_budget(chain).value_or(0);
    for (const ChainSolution& plan : solve_best(chain, kScored, kEffort)) score_parts(plan.choice);
  }
  const auto least = std::ranges::min_element(scores_, {}, [this](const Scored& scored) {
    return std::pair(!limits_.satisfied_by(scored.second), scored.second.required_bytes);
  });
  return least->first;
}

std::vector<PlanSearch::Choice> PlanSearch::known(size_t most) const {
  std::vector<const Scored*> fitting;
  for (const Scored& scored : scores_)
    if (limits_.satisfied_by(scored.second)) fitting.push_back(&scored);
  most = std::min(most, fitting.size());
  std::ranges::partial_sort(fitting, fitting.begin() + static_cast<std::ptrdiff_t>(most),
                            [this](const Scored* a, const Scored* b) { return faster(a->second, b->second); });
  std::vector<Choice> choices;
  for (size_t i = 0; i < most; ++i) choices.push_back(fitting[i]->first);
  return choices;
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

const StepPrediction& PlanSearch::score_parts(Choice parts) {
  parts.push_back(stash_);
  return score(parts);
}

void PlanSearch::take_better(const Scored& scored) {
  if (limits_.satisfied_by(scored.second) && (!best_ || faster(scored.second, best_->second))) best_ = &scored;
}

// Overlapped copies still slow compute down a little. If two plans are equally fast, the one that copies less is
// better.
bool PlanSearch::faster(const StepPrediction& a, const StepPrediction& b) const {
  const double tax = planner_.costs_.copy_slowdown > 0 ? 0 : kCopyTax;
  const auto ms = [&](const StepPrediction& step) {
    return step.step_ms + tax * copy_ms(step) + kCopyTax * disk_ms(step);
  };
  return ms(a) < ms(b) || (ms(a) == ms(b) && a.required_bytes < b.required_bytes);
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

// Gives all blocks the same option, as strategies do.
void PlanSearch::score_alike() {
  int most = 0;
  for (size_t i = 0; i < planner_.parts_.size(); ++i) most = std::max(most, options(i));
  for (int option = 0; option < most; ++option) {
    Choice choice;
    for (size_t i = 0; i < planner_.parts_.size(); ++i) choice.push_back(std::min(option, options(i) - 1));
    score_parts(std::move(choice));
  }
}

// A chain without the disk and, if there is a disk, one with it. The latter uses a share of host memory to stage
// writes.
std::vector<Chain> PlanSearch::chains() const {
  std::vector<Chain> chains(2, chain_);
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
void PlanSearch::score_chain(Chain chain) {
  const int64_t base = planner_.costs_.runs.empty() ? 0 : planner_.costs_.runs.front().before_bytes;
  chain.budget_bytes = limits_.budget_bytes - base - planner_.costs_.device_overhead_bytes;
  for (int i = 0; i < kAdjustments && !is_good(); ++i) {
    if (const auto least = least_budget(chain); !least || *least > chain.budget_bytes) {
      if (!least || i > 0) return;
      chain.budget_bytes = *least;
    }
    const std::vector<ChainSolution> plans = solve_best(chain, kScored, kEffort);
    if (plans.empty()) return;
    for (const ChainSolution& plan : plans) score_parts(plan.choice);
    const int64_t more = score_parts(plans.front().choice).required_bytes - limits_.budget_bytes;
    if (std::abs(static_cast<double>(more)) < kNear * static_cast<double>(limits_.budget_bytes)) return;
    chain.budget_bytes -= more;
  }
}

// Whether the option alone may make the step faster: it recomputes less, or it offloads less while compute waits for
// copies.
bool PlanSearch::may_be_faster(size_t part, int option) const {
  const BlockOption &now = option_of(part, best_->first[part]), &then = option_of(part, option);
  if (then.recompute_ms < now.recompute_ms) return true;
  if (then.disk_bytes < now.disk_bytes) return best_->second.disk_read_bytes + best_->second.disk_write_bytes > 0;
  return then.offloaded_bytes < now.offloaded_bytes &&
         (best_->second.wait_ms > 0 || planner_.costs_.copy_slowdown > 0 || then.recompute_ms == now.recompute_ms);
}

// From both ends in turn, because the overlap of copies depends on the position of a block.
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

// Changes one part after the other while the step gets faster, or equally fast with less copied. A change that did not
// help some parts is not tried with all parts like them.
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

// One part takes the memory that another gives up.
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
    return option_of(part, option).offloaded_bytes - option_of(part, option).disk_bytes;
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
