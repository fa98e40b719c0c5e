#include "core/trainer/rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json.h"

namespace memtune::trainer {

using nlohmann::json;

bool matches(const json& value, const json& wanted) {
  if (wanted.is_array()) return std::ranges::any_of(wanted, [&](const json& one) { return matches(value, one); });
  if (!wanted.is_object()) return value == wanted;
  if (wanted.contains("not")) return !matches(value, wanted["not"]);
  return !value.is_null() && print_json(value).find(wanted.at("has").get<std::string>()) != std::string::npos;
}

bool hold(const Conditions& conditions, const OwnSettings& own, const Changes& changes, const std::string& name) {
  return std::ranges::all_of(conditions, [&](const auto& condition) {
    const auto& [key, wanted] = condition;
    return matches(key == "$name" ? json(name) : own.value(key, changes), parse_json(wanted));
  });
}

}  // namespace memtune::trainer
