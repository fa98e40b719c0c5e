// Searches the choices of a planner for the fastest one that fits the limits.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/plan/planner/planner.h"

namespace memtune::planner {

class PlanSearch {
 public:
  using Choice = Planner::Choice;

  // `planner` and `scores` must outlive it. It starts with `scores` and adds to them. `stash`: of all its choices.
  PlanSearch(const Planner& planner, const PlanLimits& limits, Planner::Scores& scores, int stash = 0);

  // Returns nothing if no choice that was found fits the limits.
  std::optional<Choice> fastest();
  // The choice with the lowest peak; one within the host and disk budgets if any is.
  Choice smallest();
  // Up to `most` of all scores so far that fit the limits, of any stash, fastest first; scores nothing new.
  std::vector<Choice> known(size_t most) const;

 private:
  using Scored = std::pair<const Choice, StepPrediction>;
  using Change = std::tuple<int, int, int>;  // structure of the part, option before, option after

  const StepPrediction& score(const Choice& choice);
  const StepPrediction& score_parts(Choice parts);
  bool faster(const StepPrediction& a, const StepPrediction& b) const;
  double copy_ms(const StepPrediction& step) const;
  double disk_ms(const StepPrediction& step) const;
  void take_better(const Scored& scored);
  void score_alike();
  std::vector<Chain> chains() const;
  void score_chain(Chain chain);
  bool may_be_faster(size_t part, int option) const;
  std::vector<size_t> parts_in_turn() const;
  bool is_better(const Choice& choice);
  Change change(size_t part, int option) const;
  void change_parts();
  void change_pairs();
  void change_pair(size_t faster, size_t other, std::map<std::pair<Change, Change>, int>& useless);
  Choice changed(Choice choice, size_t part, int option) const;
  const BlockOption& option_of(size_t part, int option) const {
    return planner_.parts_[part].options[static_cast<size_t>(option)];
  }
  int options(size_t part) const { return static_cast<int>(planner_.parts_[part].options.size()); }
  bool may_score() const { return scored_ < kMaxScores; }
  bool is_good() const;

  static constexpr size_t kMaxScores = 1500;  // predictions of the model in one search

  const Planner& planner_;
  Planner::Scores& scores_;
  const PlanLimits limits_;
  const int stash_;
  const double least_ms_;  // lower bound of the step time
  Chain chain_;
  size_t scored_ = 0;
  const Scored* best_ = nullptr;  // of scores_, fits the limits
};

}  // namespace memtune::planner
