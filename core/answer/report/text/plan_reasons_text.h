// Explains a plan: a line or two for blocks with the same policy, and JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/plan/planner/plan_reasons.h"

namespace memtune::report {

// Lines have at most `width` characters and end with a line feed.
std::string reasons_text(const planner::PlanReasons& reasons, int64_t budget_bytes, int width);

nlohmann::json reasons_json(const planner::PlanReasons& reasons);

// "0-11, 13" for ascending numbers.
std::string ranges_text(const std::vector<int>& numbers);

}  // namespace memtune::report
