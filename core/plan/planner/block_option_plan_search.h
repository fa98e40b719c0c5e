// Searches the choices of a planner for the fastest one that fits the limits.
//
// A change of one or two parts is predicted only if its bounds allow a faster step within the budget: the peak moves by
// the resident bytes of the parts before it, and the time by what is recomputed and copied.
//
// Predictions run on all free cores. The next changes are predicted ahead, and used in their order if none before them
// helped. The result therefore does not depend on the number of cores.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/plan/planner/planner.h"

namespace memtune::planner {

class BlockOptionPlanSearch {
 public:
  using Choice = Planner::Choice;

  // `planner` and `scores` must outlive it. It starts with `scores` and adds to them. `variant`: of all its choices.
  BlockOptionPlanSearch(const Planner& planner, const PlanMemoryBudgets& limits, Planner::Scores& scores,
                        int variant = 0);

  // Returns nothing if no choice that was found fits the limits.
  std::optional<Choice> fastest();
  // Of those that give all blocks the same option. Predicts few choices.
  std::optional<Choice> fastest_alike();
  // The choice with the lowest peak; one within the host and disk budgets if any is.
  Choice smallest();
  // Up to `most` of all scores so far that fit the limits, with parameters and optimizer states in the same places,
  // fastest first; scores nothing new.
  std::vector<Choice> known(size_t most) const;

 private:
  using Scored = std::pair<const Choice, StepPrediction>;
  struct PartOption {
    size_t part = 0;
    int option = 0;
  };
  // Of one part, or of two.
  struct Change {
    PartOption first;
    std::optional<PartOption> second = {};
  };
  using PartKind = std::tuple<int, int, int>;  // structure of the part, option before, option after
  using Kind = std::pair<PartKind, PartKind>;

  const StepPrediction& score(const Choice& choice);
  const StepPrediction& score_parts(Choice parts);
  void score_all(std::vector<Choice> parts);
  void predict_ahead(std::vector<Choice> choices, const CoreSemaphore::Helpers& helpers);
  bool faster(const StepPrediction& a, const StepPrediction& b) const;
  double copy_ms(const StepPrediction& step) const;
  double disk_ms(const StepPrediction& step) const;
  void take_better(const Scored& scored);
  void score_alike();
  std::vector<ChainPlanningProblem> chains() const;
  void score_chain(ChainPlanningProblem chain);
  bool may_be_faster(size_t part, int option) const;
  bool gives_up(const PartOption& change) const;
  bool may_help(const Change& change) const;
  double least_more_ms(const Change& change) const;
  int64_t least_more_bytes(const Change& change) const;
  std::vector<size_t> parts_in_turn() const;
  bool is_better(const Choice& choice);
  PartKind kind(const PartOption& change) const;
  Kind kind(const Change& change) const;
  Choice changed(const Change& change) const;
  void change_parts();
  void change_pairs();
  void try_changes(const std::vector<Change>& changes);
  const BlockOption& option_of(size_t part, int option) const {
    return planner_.parts_[part].options[static_cast<size_t>(option)];
  }
  int options(size_t part) const { return static_cast<int>(planner_.parts_[part].options.size()); }
  bool may_score() const { return scored_ < max_scores_; }
  bool is_good() const;

  const Planner& planner_;
  Planner::Scores& scores_;
  const PlanMemoryBudgets limits_;
  const int variant_;
  Planner::Scores ahead_;  // predicted, but no part of `scores_` until the search comes to them
  const double least_ms_;  // lower bound of the step time
  ChainPlanningProblem chain_;
  size_t scored_ = 0, max_scores_ = 1500;  // predictions of the model in this search
  const Scored* best_ = nullptr;           // of scores_, fits the limits
};

}  // namespace memtune::planner
