// Reads a plan that a person wrote. Unlike from_json(), which ignores fields of later versions, it refuses unknown
// fields, because they are most likely misspelled.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/plan/strategy/plan.h"

namespace memtune::plan {

Plan read_plan_strictly(const nlohmann::json& json);  // throws UsageError that names field and value

}  // namespace memtune::plan
