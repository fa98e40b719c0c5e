// Which of the measured strategies to use, and why, in words. Pure functions over rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/result/ranking.h"

namespace memtune::result {

enum class Goal { throughput, memory };
std::string to_string(Goal goal);
Goal parse_goal(const std::string& text);  // UsageError with the valid names

struct Recommendation {
  std::string strategy;  // "": nothing worked, and the reason says why
  std::string reason;    // in words: "the fastest of three within 16 GiB"
  bool fits = true;      // false: nothing keeps the budget
  std::optional<int64_t> batch, sequence;
};

// Throughput: the fastest whose allocated peak keeps the budget (no budget: of all); of those that are as fast within
// the noise the one that changes a step least, so `none` where it fits and nothing is measurably faster. Memory: the
// smallest peak. Where sequences differ only the longest that fits is chosen from, and of trials that amount to the
// same only one (see choices). `budget_bytes` 0: none. Nothing fits: `fits` is false, and the strategy is the least
// that works.
Recommendation recommend(std::span<const Row> rows, int64_t budget_bytes, Goal goal);

// The choice among rows that all fit; at least one.
const Row& choose(std::span<const Row* const> fitting, const Ranking& ranking, Goal goal);

// Sets Row::pareto, and Row::recommended where something fits.
void mark_rows(std::span<Row> rows, const Recommendation& recommendation);

}  // namespace memtune::result
