#include "core/planner/planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "core/planner/chain_solver.h"

namespace memtune::planner {
namespace {

using config::OpFacts;
using config::StepCosts;

constexpr int kAdjustments = 8;           // of the chain's budget
constexpr size_t kScored = 16;            // choices of a chain
constexpr size_t kMostScores = 1500;      // of the model, in one search
constexpr double kLinks[] = {1, 0.5, 0};  // of what it carries, for chains
constexpr double kNear = 0.002;           // of the budget: a peak that near to it uses it up
constexpr double kBytesPerMs = 1e6;       // of a GB/s
constexpr double kCopyTax = 0.01;         // as StepCosts::copy_slowdown, where that was not measured

// What a recording says of one part of the chain: a block, or what lies before or behind them. Bytes are allocated
// ones.
struct PartCosts {
  double forward_ms = 0, backward_ms = 0;
  int64_t before_bytes = -1;   // when its forward begins; -1: it has none
  int64_t forward_bytes = 0;   // at most in its forward
  int64_t backward_bytes = 0;  // at most in its backward
};

std::vector<PartCosts> costs_of_parts(const config::ProgramFacts& facts, const StepCosts& costs) {
  const size_t blocks = facts.blocks.size();
  std::vector<PartCosts> parts(blocks + 2);
  const auto part_of = [&](int run) -> PartCosts& {
    const OpFacts& op = facts.ops[static_cast<size_t>(costs.runs[static_cast<size_t>(run)].op)];
    return parts[op.block >= 0 ? static_cast<size_t>(op.block) + 1 : op.after_blocks ? blocks + 1 : 0];
  };
  for (size_t i = 0; i < costs.runs.size(); ++i) {
    const StepCosts::Run& run = costs.runs[i];
    PartCosts& part = part_of(static_cast<int>(i));
    if (part.before_bytes < 0) part.before_bytes = run.before_bytes;
    part.forward_ms += run.ms;
    part.forward_bytes = std::max(part.forward_bytes, run.before_bytes + run.own_bytes);
  }
  for (const StepCosts::Moment& moment : costs.moments) {
    PartCosts& part = part_of(costs.saved[static_cast<size_t>(moment.saved)].run);
    part.backward_ms += moment.ms;
    part.backward_bytes = std::max(part.backward_bytes, moment.peak_bytes);
  }
  int64_t next = costs.runs.empty() ? 0 : costs.runs.back().before_bytes;
  for (size_t i = parts.size(); i-- > 0; next = parts[i].before_bytes)
    if (parts[i].before_bytes < 0) parts[i].before_bytes = next;
  return parts;
}

}  // namespace

Planner::Planner(const config::ProgramFacts& facts, StepCosts costs)
    : facts_(facts),
      graph_(facts),
      costs_(std::move(costs)),
      out_gb_per_s_(costs_.out_gb_per_s),
      in_gb_per_s_(costs_.in_gb_per_s),
      model_(std::in_place, facts_, costs_) {
  limits_.outside = true;
  parts_ = block_options(facts_, graph_, costs_, limits_);
}

void Planner::scale_link(double factor) {
  costs_.out_gb_per_s = factor * out_gb_per_s_;
  costs_.in_gb_per_s = factor * in_gb_per_s_;
  model_.emplace(facts_, costs_);
}

// A part's bytes are those that the recording shows, less what its option does not keep.
Chain Planner::make_chain() const {
  const std::vector<PartCosts> costs = costs_of_parts(facts_, costs_);
  Chain chain;
  chain.out_bytes_per_ms = kBytesPerMs * costs_.out_gb_per_s;
  chain.in_bytes_per_ms = kBytesPerMs * costs_.in_gb_per_s;
  double slowdown_ms = 0;  // of compute, for a byte that goes out and comes back
  if (costs_.out_gb_per_s > 0 && costs_.in_gb_per_s > 0)
    slowdown_ms = costs_.copy_slowdown * (1 / chain.out_bytes_per_ms + 1 / chain.in_bytes_per_ms);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const PartCosts& part = costs[i];
    const int64_t kept = parts_[i].options.front().resident_bytes;
    const int64_t grown = i + 1 < parts_.size() ? costs[i + 1].before_bytes - part.before_bytes : kept;
    ChainBlock& block = chain.blocks.emplace_back(ChainBlock{part.forward_ms, part.backward_ms, {}});
    for (const BlockOption& option : parts_[i].options)
      block.options.push_back({.resident_bytes = std::max<int64_t>(0, grown - (kept - option.resident_bytes)),
                               .moved_bytes = option.moved_bytes,
                               .recompute_ms = option.recompute_ms + slowdown_ms * double(option.moved_bytes),
                               .forward_peak_bytes = std::max<int64_t>(0, part.forward_bytes - part.before_bytes),
                               .backward_peak_bytes = std::max<int64_t>(0, part.backward_bytes - part.before_bytes)});
  }
  return chain;
}

config::Plan Planner::make_plan(const Choice& choice, const std::string& name) const {
  std::vector<BlockOption> chosen;
  for (size_t i = 0; i < parts_.size(); ++i) chosen.push_back(parts_[i].options[static_cast<size_t>(choice[i])]);
  return plan_of_options(chosen, facts_, graph_, limits_, name);
}

// Looks among choices for the best that keeps the limits; each is scored once.
class PlanSearch {
 public:
  PlanSearch(const Planner& planner, const PlanLimits& limits, const std::string& name)
      : planner_(planner), limits_(limits), name_(name), chain_(planner.make_chain()) {
    chain_.host_budget_bytes = limits.host_budget_bytes;
  }

  std::optional<PlannedStep> fastest() {
    score_alike();
    for (const double link : kLinks) {
      score_chains(link);
      change_parts();
    }
    change_pairs();
    if (best_ == nullptr) return {};
    return PlannedStep{planner_.make_plan(*best_, name_), scores_.at(*best_)};
  }

  PlannedStep smallest() {
    score_alike();
    chain_.budget_bytes = least_budget(chain_).value_or(0);
    for (const ChainPlan& plan : solve_best(chain_, kScored)) score(plan.choice);
    const auto least = std::ranges::min_element(scores_, {}, [this](const auto& scored) {
      return std::pair(!limits_.kept_by(scored.second), scored.second.peak_bytes);
    });
    return {planner_.make_plan(least->first, name_), least->second};
  }

 private:
  using Choice = Planner::Choice;

  const StepPrediction& score(const Choice& choice) {
    const auto [found, added] = scores_.try_emplace(choice);
    if (!added) return found->second;
    const StepPrediction& step = found->second = planner_.predict(planner_.make_plan(choice, name_));
    if (limits_.kept_by(step) && (best_ == nullptr || faster(step, scores_.at(*best_)))) best_ = &found->first;
    return step;
  }

  // Copies that compute hides slow it down a little all the same: of two plans as fast the one that moves less is the
  // better.
  bool faster(const StepPrediction& a, const StepPrediction& b) const {
    const double tax = planner_.costs_.copy_slowdown > 0 ? 0 : kCopyTax;
    const auto ms = [&](const StepPrediction& step) { return step.step_ms + tax * copy_ms(step); };
    return ms(a) < ms(b) || (ms(a) == ms(b) && a.peak_bytes < b.peak_bytes);
  }

  double copy_ms(const StepPrediction& step) const {
    if (chain_.out_bytes_per_ms <= 0 || chain_.in_bytes_per_ms <= 0) return 0;
    return static_cast<double>(step.out_bytes) / chain_.out_bytes_per_ms +
           static_cast<double>(step.in_bytes) / chain_.in_bytes_per_ms;
  }

  int options(size_t part) const { return static_cast<int>(planner_.parts_[part].options.size()); }

  // All blocks treated alike, as strategies do.
  void score_alike() {
    int most = 0;
    for (size_t i = 0; i < planner_.parts_.size(); ++i) most = std::max(most, options(i));
    for (int option = 0; option < most; ++option) {
      Choice choice;
      for (size_t i = 0; i < planner_.parts_.size(); ++i) choice.push_back(std::min(option, options(i) - 1));
      score(choice);
    }
  }

  // The chain's peaks are rough: what its best choice takes more or less than the budget is its next budget's. So is
  // what it knows of waits: slower links give choices that move less.
  void score_chains(double link) {
    Chain chain = chain_;
    chain.out_bytes_per_ms *= link;
    chain.in_bytes_per_ms *= link;
    const int64_t base = planner_.costs_.runs.empty() ? 0 : planner_.costs_.runs.front().before_bytes;
    chain.budget_bytes = limits_.budget_bytes - base;
    for (int i = 0; i < kAdjustments; ++i) {
      if (const auto least = least_budget(chain); !least || *least > chain.budget_bytes) {
        if (!least || i > 0) return;
        chain.budget_bytes = *least;
      }
      const std::vector<ChainPlan> plans = solve_best(chain, kScored);
      if (plans.empty()) return;
      for (const ChainPlan& plan : plans) score(plan.choice);
      const int64_t more = score(plans.front().choice).peak_bytes - limits_.budget_bytes;
      if (std::abs(static_cast<double>(more)) < kNear * static_cast<double>(limits_.budget_bytes)) return;
      chain.budget_bytes -= more;
    }
  }

  bool may_score() const { return scores_.size() < kMostScores; }

  // One part after the other, as long as that makes the step faster.
  void change_parts() {
    for (const Choice* before = nullptr; best_ != nullptr && best_ != before;) {
      before = best_;
      for (size_t part = 0; part < planner_.parts_.size(); ++part)
        for (int option = 0; option < options(part) && may_score(); ++option) score(changed(*best_, part, option));
    }
  }

  // What one part gives up another takes.
  void change_pairs() {
    for (const Choice* before = nullptr; best_ != nullptr && best_ != before && may_score();) {
      before = best_;
      for (size_t first = 0; first < planner_.parts_.size(); ++first)
        for (size_t second = 0; second < first; ++second)
          for (int a = 0; a < options(first); ++a)
            for (int b = 0; b < options(second) && may_score(); ++b)
              score(changed(changed(*best_, first, a), second, b));
    }
  }

  static Choice changed(Choice choice, size_t part, int option) {
    choice[part] = option;
    return choice;
  }

  const Planner& planner_;
  const PlanLimits limits_;
  const std::string& name_;
  Chain chain_;
  std::map<Choice, StepPrediction> scores_;
  const Choice* best_ = nullptr;  // of `scores_`, that keeps the limits
};

std::optional<PlannedStep> Planner::plan(const PlanLimits& limits, const std::string& name) const {
  return PlanSearch(*this, limits, name).fastest();
}

PlannedStep Planner::least_memory(int64_t host_budget_bytes, const std::string& name) const {
  return PlanSearch(*this, {std::numeric_limits<int64_t>::max(), host_budget_bytes}, name).smallest();
}

}  // namespace memtune::planner
