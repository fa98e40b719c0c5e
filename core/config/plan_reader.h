// A whole plan as a person wrote it: like from_json, which passes over the fields of a later version, but a field that
// is not known is an error, most likely a mistyped one.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/config/plan.h"

namespace memtune::config {

Plan read_plan_strictly(const nlohmann::json& json);  // UsageError naming field and value

}  // namespace memtune::config
