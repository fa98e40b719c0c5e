// Which of the measured strategies to use, and why, in words. Pure functions over rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/report/report.h"

namespace memtune::sweep {

enum class Goal { throughput, memory };
std::string to_string(Goal goal);
Goal parse_goal(const std::string& text);  // UsageError with the valid names

// Worked, with gradients that are the reference's (or as near to them as its own two runs), in a time that is a number.
bool usable(const result::Measurement& measurement);

// Throughput: the fastest whose allocated peak keeps the budget (no budget: the fastest of all); of those within 1 % of
// it the one with the smallest peak. Memory: the smallest peak. `budget_bytes` 0: none.
report::Recommendation recommend(std::span<const report::Row> rows, int64_t budget_bytes, Goal goal);

// Sets pareto (no usable row of the same batch and sequence is both faster and smaller) and recommended.
void mark_rows(std::span<report::Row> rows, const report::Recommendation& recommendation);

}  // namespace memtune::sweep
