// Looks among the choices of a planner for the best that keeps the limits.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/planner/planner.h"

namespace memtune::planner {

class PlanSearch {
 public:
  using Choice = Planner::Choice;

  // The planner and the scores, which it begins with and adds to, outlive it.
  PlanSearch(const Planner& planner, const PlanLimits& limits, Planner::Scores& scores);

  // Nothing: none that was found keeps the limits.
  std::optional<Choice> fastest();
  // The one of the least peak, within the host's budget if any is.
  Choice smallest();
  // Of those that any search has scored; nothing new is.
  std::optional<Choice> best_known() const;

 private:
  using Scored = std::pair<const Choice, StepPrediction>;
  using Change = std::tuple<int, int, int>;  // of parts of that structure, from one option to another

  const StepPrediction& score(const Choice& choice);
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
  bool may_score() const { return scored_ < kMostScores; }
  bool is_good() const;

  static constexpr size_t kMostScores = 1500;  // of the model, in one search

  const Planner& planner_;
  Planner::Scores& scores_;
  const PlanLimits limits_;
  const double least_ms_;  // that the best can take
  Chain chain_;
  size_t scored_ = 0;
  const Scored* best_ = nullptr;  // of the scores, that keeps the limits
};

}  // namespace memtune::planner
