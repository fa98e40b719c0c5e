// The data of profiles/trainers/<name>.json: a trainer's memory settings and their effects. docs/developer/extend.md
// explains the fields.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace memtune {
class JsonObjectReader;
}  // namespace memtune

namespace memtune::trainer {

using Path = std::vector<std::string>;  // keys from outer to inner
using JsonText = std::string;           // a value as print_json() writes it

// Releases of a package from `since` on and before `before`; "": no bound.
struct PackageReleaseRange {
  std::string package, since, before;
};

// The values that the trainer accepts for a key, its default, and the releases that have it.
struct ConfigValueSchema {
  std::vector<std::string> kinds;
  JsonText fallback = "null";
  JsonText empty = "null";         // the value that the key without a value means; null: the default
  std::vector<std::string> items;  // the words that a list may have; empty: any
  std::vector<int64_t> between;    // the least number, and the greatest if there is one; empty: any
  std::optional<PackageReleaseRange> range;
};

using Changes = std::map<std::string, std::optional<JsonText>>;  // none: remove the key

struct SettingAxisOption {
  std::string name;
  Changes changes;
  std::optional<PackageReleaseRange> range;
};

// One setting with several choices. A choice removes those keys of its axis that it does not set.
struct SettingAxis {
  std::string allow;  // permission that the user must give; "": none
  std::vector<SettingAxisOption> choices;
};

// In the releases of `range`, the key `from` is called `to`. If `older`, `to` is a name that these releases also took.
struct ConfigKeyRename {
  std::string from, to;
  bool older = false;
  PackageReleaseRange range;
};

// Key (or "$command", "$name") -> a value, a list of allowed values, {"not": value} or {"has": text}.
using Conditions = std::map<std::string, JsonText>;

// A config that meets all conditions is not run. With `note` it runs, with a warning that it does something else than
// it seems to.
struct ConfigRejectionRule {
  Conditions when;
  std::string reason;
  bool note = false;
  std::optional<PackageReleaseRange> range;
};

// The keys of one of memtune's strategies, for both directions: they are written for the strategy, and a config with
// them amounts to it.
struct StrategyToConfigKeysMapping {
  std::string strategy;  // canonical; a placeholder "{n}", "{n-1}" or "{names}" takes its value from the keys
  Conditions set;        // values that a config has; null: the key is absent. Plain values are also written
  std::map<std::string, JsonText> also;  // written too, but not required in a config
  Conditions when;                       // conditions on other keys
  std::optional<PackageReleaseRange> range;
  bool divides = false;  // n must divide the number of blocks, otherwise the trainer chooses other blocks
  bool read = false;     // only read, never written
  bool nearly = false;   // a config with these keys is only similar
  bool stated = false;   // matches only if the config or command sets one of the keys
  std::vector<std::string> notes;
};

// The keys for one way of sharding parameters.
struct ShardingModeConfigValues {
  std::map<std::string, JsonText> set;
  std::vector<std::string> notes;
};

// A call in a program that takes settings as keyword arguments.
struct KeywordArgumentSettingsCall {
  std::string name;               // of the mapping that is written
  std::string of;                 // what is called
  std::vector<std::string> keys;  // empty: all that no other call has
};

struct TrainerProfile {
  std::vector<std::string> forms;       // of its config: "yaml", "json", "toml"; empty: only arguments
  std::string argument;                 // "--{key} {value}"; "": no arguments
  std::string argument_without_config;  // if the command names no config; "": the same
  std::string removal;                  // "~{key}": removes a key of the config; "": the key is set to its default
  std::map<std::string, std::string> arguments;  // for keys with another form of argument
  bool dotted = false;  // nested keys are arguments of their own; otherwise a mapping is one value
  std::map<std::string, std::string> releases;
  std::map<std::string, ConfigValueSchema> settings;  // by dotted path
  std::vector<ConfigKeyRename> renames;
  std::vector<SettingAxis> axes;
  std::string micro_batch, accumulation;     // keys; both may be ""
  std::map<std::string, JsonText> remedies;  // against out of memory: word of oom_remedy.h -> keys with values, or text
  std::vector<StrategyToConfigKeysMapping> strategies;       // the first match counts
  std::map<std::string, ShardingModeConfigValues> sharding;  // by the words of --reshard
  std::map<std::string, std::vector<std::string>> names;     // words of memtune's save= -> the trainer's words
  std::map<std::string, std::vector<std::string>> closed;    // mappings that only allow `settings` and these keys
  std::map<std::string, std::string> program;                // if the config is a program: value -> its code
  std::string import;                                        // the import line for that code
  std::vector<KeywordArgumentSettingsCall> calls;            // if its settings are arguments of calls
  std::string loss;                                          // how the trainer's loss differs from memtune's
  std::vector<std::string> combinations;
  std::vector<ConfigRejectionRule> rules;
  std::vector<ConfigRejectionRule> undecided;  // why a config amounts to no strategy; "{key}" in a reason is its value
};

// The conditions or values in the object `key`; empty if it is missing.
Conditions read_conditions(JsonObjectReader& object, const char* key);

// The message for a trainer that is not among `known`: its command if that is known, else the nearest name.
std::string unknown_trainer(const std::string& name, std::span<const std::string> known);

// Throws UsageError for an unknown trainer, with the nearest name.
TrainerProfile read_space_profile(const std::string& trainer);

// Makes the arguments those of a command without a config file, if no word of the command is one.
void choose_arguments(TrainerProfile& profile, const std::vector<std::string>& command);

// `wanted` is a value, a list of allowed values, {"not": ...}, {"has": text}, or an object with both.
bool matches(const nlohmann::json& value, const nlohmann::json& wanted);

// Without a range, all releases are in it.
bool in_range(const std::optional<PackageReleaseRange>& range, const std::map<std::string, std::string>& releases);

}  // namespace memtune::trainer
