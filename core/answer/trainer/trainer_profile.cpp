#include "core/answer/trainer/trainer_profile.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/answer/trainer/command_trainers.h"
#include "core/base/embedded_json_preset.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/json_object_reader.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using nlohmann::json;

std::map<std::string, std::string> read_texts(JsonObjectReader& object, const char* key) {
  std::map<std::string, std::string> texts;
  if (const json* found = object.find(key))
    for (const auto& [name, text] : found->items()) texts[name] = text.get<std::string>();
  return texts;
}

PackageReleaseRange read_range(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  PackageReleaseRange range;
  object.read("package", range.package);
  object.read("since", range.since);
  object.read("before", range.before);
  object.require({"package"});
  object.finish();
  return range;
}

ConfigValueSchema read_key(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  ConfigValueSchema setting;
  object.read("kinds", setting.kinds);
  object.read("items", setting.items);
  for (const auto& bound : object.array("between")) setting.between.push_back(bound.get<int64_t>());
  object.require({"kinds"});
  if (const auto* range = object.find("range")) setting.range = read_range(*range, object.path("range"));
  if (const auto* fallback = object.find("default")) setting.fallback = print_json(*fallback);
  if (const auto* empty = object.find("empty")) setting.empty = print_json(*empty);
  object.finish();
  return setting;
}

SettingAxisOption read_choice(const json& json, const std::string& path, const std::vector<std::string>& keys) {
  JsonObjectReader object(json, path);
  SettingAxisOption choice;
  object.read("name", choice.name);
  object.require({"name", "set"});
  for (const std::string& key : keys) choice.changes[key] = std::nullopt;
  for (const auto& [key, value] : object.find("set")->items()) choice.changes[key] = print_json(value);
  if (const auto* range = object.find("range")) choice.range = read_range(*range, object.path("range"));
  object.finish();
  return choice;
}

SettingAxis read_axis(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  SettingAxis axis;
  std::string name;
  std::vector<std::string> keys;
  object.read("name", name);
  object.read("allow", axis.allow);
  object.read("keys", keys);
  for (const auto& choice : object.array("choices"))
    axis.choices.push_back(read_choice(choice, object.path("choices", axis.choices.size()), keys));
  object.require({"name", "choices"});
  object.finish();
  return axis;
}

ConfigKeyRename read_rename(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  ConfigKeyRename rename;
  object.read("from", rename.from);
  object.read("to", rename.to);
  object.read("older", rename.older);
  object.require({"from", "to", "range"});
  rename.range = read_range(*object.find("range"), object.path("range"));
  object.finish();
  return rename;
}

std::map<std::string, std::vector<std::string>> read_lists(JsonObjectReader& object, const char* key) {
  std::map<std::string, std::vector<std::string>> lists;
  if (const json* found = object.find(key))
    for (const auto& [name, list] : found->items()) lists[name] = list.get<std::vector<std::string>>();
  return lists;
}

ConfigRejectionRule read_rule(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  ConfigRejectionRule rule;
  object.read("reason", rule.reason);
  object.read("note", rule.note);
  if (const auto* range = object.find("range")) rule.range = read_range(*range, object.path("range"));
  object.require({"when", "reason"});
  rule.when = read_conditions(object, "when");
  object.finish();
  return rule;
}

StrategyToConfigKeysMapping read_expression(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  StrategyToConfigKeysMapping expression;
  object.read("strategy", expression.strategy);
  object.read("divides", expression.divides);
  object.read("read", expression.read);
  object.read("nearly", expression.nearly);
  object.read("stated", expression.stated);
  object.read("notes", expression.notes);
  object.require({"strategy", "set"});
  expression.set = read_conditions(object, "set");
  expression.also = read_conditions(object, "also");
  expression.when = read_conditions(object, "when");
  if (const auto* range = object.find("range")) expression.range = read_range(*range, object.path("range"));
  object.finish();
  return expression;
}

KeywordArgumentSettingsCall read_call(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  KeywordArgumentSettingsCall call;
  object.read("name", call.name);
  object.read("of", call.of);
  object.read("keys", call.keys);
  object.require({"name", "of", "keys"});
  object.finish();
  return call;
}

ShardingModeConfigValues read_sharding(const json& json, const std::string& path) {
  JsonObjectReader object(json, path);
  ShardingModeConfigValues sharding;
  object.read("notes", sharding.notes);
  object.require({"set"});
  sharding.set = read_conditions(object, "set");
  object.finish();
  return sharding;
}

void read_batch(const json& json, const std::string& path, TrainerProfile& profile) {
  JsonObjectReader object(json, path);
  object.read("micro", profile.micro_batch);
  object.read("accumulation", profile.accumulation);
  object.require({"micro", "accumulation"});
  object.finish();
}

std::vector<int> parts_of(const std::string& release) {
  std::vector<int> parts;
  for (const std::string& part : split(release, '.')) parts.push_back(std::atoi(part.c_str()));
  while (!parts.empty() && parts.back() == 0) parts.pop_back();
  return parts;
}

}  // namespace

Conditions read_conditions(JsonObjectReader& object, const char* key) {
  Conditions values;
  if (const json* found = object.find(key))
    for (const auto& [name, value] : found->items()) values[name] = print_json(value);
  return values;
}

std::string unknown_trainer(const std::string& name, std::span<const std::string> known) {
  if (const TrainerWithoutProfile* other = find_command_trainer(name))
    return std::string(other->name) +
           " has no description in memtune, so its command is measured: " + std::string(other->command);
  const auto same = std::ranges::find_if(known, [&](const std::string& one) { return is_same_name(one, name); });
  if (same != known.end()) return "unknown trainer '" + name + "'; did you mean '" + *same + "'?";
  return unknown_name("trainer", name, known) + ". Others are measured by their command: memtune sweep -- COMMAND";
}

TrainerProfile read_space_profile(const std::string& trainer) {
  std::vector<std::string> known;
  for (const EmbeddedJsonPreset& profile : profiles())
    if (profile.kind == "trainers") known.emplace_back(profile.name);
  if (std::ranges::count(known, trainer) == 0) throw UsageError(unknown_trainer(trainer, known));
  const json text = parse_json_object(trainer, find_profile("trainers", trainer).json);
  JsonObjectReader object(text, trainer);
  TrainerProfile profile;
  std::string description;
  object.read("description", description);
  object.read("forms", profile.forms);
  object.read("argument", profile.argument);
  object.read("argument_without_config", profile.argument_without_config);
  object.read("removal", profile.removal);
  object.read("dotted_arguments", profile.dotted);
  object.read("combinations", profile.combinations);
  profile.arguments = read_texts(object, "arguments");
  profile.program = read_texts(object, "program");
  profile.names = read_lists(object, "names");
  profile.closed = read_lists(object, "closed");
  profile.remedies = read_conditions(object, "remedies");
  object.read("import", profile.import);
  object.read("loss", profile.loss);
  profile.releases = read_texts(object, "releases");
  object.require({"settings", "axes"});
  for (const auto& [key, setting] : object.find("settings")->items())
    profile.settings[key] = read_key(setting, object.path("settings") + "." + key);
  for (const json& call : object.array("calls"))
    profile.calls.push_back(read_call(call, object.path("calls", profile.calls.size())));
  for (const json& rename : object.array("renames"))
    profile.renames.push_back(read_rename(rename, object.path("renames", profile.renames.size())));
  for (const json& axis : object.array("axes"))
    profile.axes.push_back(read_axis(axis, object.path("axes", profile.axes.size())));
  for (const json& rule : object.array("rules"))
    profile.rules.push_back(read_rule(rule, object.path("rules", profile.rules.size())));
  for (const json& rule : object.array("undecided"))
    profile.undecided.push_back(read_rule(rule, object.path("undecided", profile.undecided.size())));
  for (const json& expression : object.array("strategies"))
    profile.strategies.push_back(read_expression(expression, object.path("strategies", profile.strategies.size())));
  if (const json* sharding = object.find("sharding"))
    for (const auto& [reshard, how] : sharding->items())
      profile.sharding[reshard] = read_sharding(how, object.path("sharding") + "." + reshard);
  if (const json* batch = object.find("batch")) read_batch(*batch, object.path("batch"), profile);
  object.finish();
  return profile;
}

void choose_arguments(TrainerProfile& profile, const std::vector<std::string>& command) {
  const auto is_config = [&](const std::string& word) {
    return std::ranges::any_of(profile.forms, [&](const std::string& form) {
      return word.ends_with("." + form) || (form == "yaml" && word.ends_with(".yml"));
    });
  };
  if (profile.argument_without_config.empty() || std::ranges::any_of(command, is_config)) return;
  profile.argument = profile.argument_without_config;
  profile.dotted = false;
}

bool matches(const json& value, const json& wanted) {
  if (wanted.is_array())
    return value == wanted || std::ranges::any_of(wanted, [&](const json& one) { return matches(value, one); });
  if (!wanted.is_object()) return value == wanted;
  if (wanted.contains("not") && matches(value, wanted["not"])) return false;
  if (!wanted.contains("has")) return true;
  return !value.is_null() && print_json(value).find(wanted["has"].get<std::string>()) != std::string::npos;
}

bool in_range(const std::optional<PackageReleaseRange>& range, const std::map<std::string, std::string>& releases) {
  if (!range) return true;
  const std::vector<int> here = parts_of(releases.at(range->package));
  return (range->since.empty() || here >= parts_of(range->since)) &&
         (range->before.empty() || here < parts_of(range->before));
}

}  // namespace memtune::trainer
