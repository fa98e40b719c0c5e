// Texts that compare predictions with measurements, and say what more memory would bring. All formats share them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/answer/report/report.h"
#include "core/answer/result/extra_memory_benefit.h"

namespace memtune::report {

// Whether any row has a prediction, failed trials included.
bool has_predictions(const Report& report);

// One line per trial of a plan with a budget: its predicted step time and the lower bound for every plan within that
// budget.
std::vector<std::string> bounds_text(const Report& report);

// "3 trials: step time off by 0.4 % in the median and 1.2 % at most, the peak by 0.1 % and 0.3 %". "" if no trial that
// worked has a prediction.
std::string predictions_text(const Report& report);

// Time saved by more memory than the budget, compared with the recommended trial. None unless the goal is throughput.
std::optional<result::ExtraMemoryBenefit> benefit_of_more_memory(const Report& report);

// "each GiB more would save 3.5 ms a step, up to 21.2 GiB (checkpoint:cheap: 267.1 ms)". "" if no measured row above
// the budget is faster.
std::string more_memory_text(const Report& report);

}  // namespace memtune::report
