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
  std::string strategy;  // "": there is none, and the reason says why
  std::string reason;    // in words: "the fastest of three within 16 GiB"
  bool fits = true;      // false: nothing keeps the budget
  std::optional<int64_t> batch, sequence;
};

// Throughput: the fastest whose allocated peak keeps the budget (no budget: the fastest of all); of those within 1 % of
// it the one with the smallest peak. Memory: the smallest peak. `budget_bytes` 0: none.
Recommendation recommend(std::span<const Row> rows, int64_t budget_bytes, Goal goal);

// Sets Row::pareto and Row::recommended.
void mark_rows(std::span<Row> rows, const Recommendation& recommendation);

}  // namespace memtune::result
