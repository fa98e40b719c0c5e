// memtune-edit-documents: reads and edits many configs, and matches patterns, for tests against Python's own readers.
// Each line of stdin is JSON: {"form": "yaml", "text": "a: 1", "path": ["a"], "value": 2}. Prints a line of JSON for
// each: without a path {"value": the settings}, with a path {"text": the edited text}; without a value the setting is
// removed. For {"form": "pattern", "text": "a+", "subject": "aa"} prints {"value": whether it matches}. {"error": why}
// if it is refused.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/trainer/toml_text.h"
#include "core/answer/trainer/yaml_text.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/model/adapter/python_regex.h"

using namespace memtune;
using nlohmann::json;

namespace {

json answer(const json& asked) {
  const std::string text = asked.at("text");
  if (asked.at("form") == "pattern") return {{"value", model::PythonRegex(text, "x").matches(asked.at("subject"))}};
  const bool toml = asked.at("form") == "toml", edit = asked.contains("path");
  if (!edit) return {{"value", toml ? trainer::read_whole_toml(text, "x") : trainer::read_whole_yaml(text, "x")}};
  const std::vector<std::string> path = asked.at("path");
  const std::optional<json> value = asked.contains("value") ? std::optional(asked["value"]) : std::nullopt;
  const auto put = asked["form"] == "json" ? trainer::put_in_json : toml ? trainer::put_in_toml : trainer::put_in_yaml;
  return {{"text", put(text, path, value, "x")}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) try {
      std::cout << answer(json::parse(line)).dump() << "\n";
    } catch (const UsageError& error) {
      std::cout << json{{"error", error.what()}}.dump() << "\n";
    }
}
