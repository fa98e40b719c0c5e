// Chooses a strategy among the measured ones and explains the choice. Pure functions over rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/answer/result/work_normalized_trial_comparator.h"

namespace memtune::result {

enum class RecommendationGoal { throughput, memory };
std::string to_string(RecommendationGoal goal);
RecommendationGoal parse_goal(const std::string& text);  // throws UsageError with the valid names

struct Recommendation {
  std::string strategy;  // "": nothing worked; see reason
  std::string reason;    // for people: "the fastest of three within 16 GiB"
  bool fits = true;      // false: nothing fits the budget
  std::optional<int64_t> batch, sequence;
};

// Goal::throughput: the fastest row whose peak allocated fits the budget. Among rows that are equally fast within noise
// it is the one with the smallest peak; of peaks within 2 % the one that changes a step least.
// Goal::memory: the smallest peak. If sequence lengths differ, only rows with the longest one that fits are considered.
// Only one of several equal trials is considered (see choices). `budget_bytes` 0: no budget. If nothing fits, `fits` is
// false and the row with the smallest peak is returned.
Recommendation recommend(std::span<const TrialResultRow> rows, int64_t budget_bytes, RecommendationGoal goal);

// Chooses among rows that all fit; `fitting` must not be empty.
const TrialResultRow& choose(std::span<const TrialResultRow* const> fitting,
                             const WorkNormalizedTrialComparator& ranking, RecommendationGoal goal);

// Sets Row::pareto, and Row::recommended if something fits.
void mark_rows(std::span<TrialResultRow> rows, const Recommendation& recommendation);

}  // namespace memtune::result
