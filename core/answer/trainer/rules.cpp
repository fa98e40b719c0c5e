#include "core/answer/trainer/rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json.h"

namespace memtune::trainer {

using nlohmann::json;

bool conditions_hold(const Conditions& conditions, const EditableUserTrainerSettings& own, const Changes& changes,
                     const std::string& name) {
  return std::ranges::all_of(conditions, [&](const auto& condition) {
    const auto& [key, wanted] = condition;
    return matches(key == "$name" ? json(name) : own.value(key, changes), parse_json(wanted));
  });
}

}  // namespace memtune::trainer
