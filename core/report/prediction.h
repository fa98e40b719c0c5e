// What a report says of predictions beside what was measured, and of what more memory would bring. Every form says it
// in these words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/report/report.h"
#include "core/result/memory_price.h"

namespace memtune::report {

// Of any row, whatever became of it.
bool has_predictions(const Report& report);

// Of each trial of a plan that was made for a budget: "plan:16 GiB: 266.0 ms on paper, where no plan of as little
// memory takes less than 265.1 ms".
std::vector<std::string> bounds_text(const Report& report);

// "3 trials: step time off by 0.4 % in the median and 1.2 % at most, the peak by 0.1 % and 0.3 %"; "" where nothing was
// predicted that worked.
std::string predictions_text(const Report& report);

// Beside the recommended trial, under the report's budget, where the fastest is looked for.
std::optional<result::MemoryPrice> price_of_more(const Report& report);

// "each GiB more would save 3.5 ms a step, up to 21.2 GiB (checkpoint:cheap: 267.1 ms)"; "" where nothing that needs
// more than the budget is faster.
std::string more_memory_text(const Report& report);

}  // namespace memtune::report
