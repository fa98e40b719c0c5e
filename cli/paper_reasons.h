// Why a plan is as it is, in a line or two for blocks that are treated alike, and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/planner/plan_reasons.h"

namespace memtune::cli {

// Lines of at most `width` characters, each ended.
std::string reasons_text(const planner::PlanReasons& reasons, int64_t budget_bytes, int width);

nlohmann::json reasons_json(const planner::PlanReasons& reasons);

// "0-11, 13": of ascending numbers.
std::string ranges_text(const std::vector<int>& numbers);

}  // namespace memtune::cli
