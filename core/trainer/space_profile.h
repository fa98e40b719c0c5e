// What profiles/trainers/<name>.json says: a trainer's memory settings and what is known of them. docs/extend.md
// explains the fields.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace memtune::trainer {

using Path = std::vector<std::string>;  // keys from outside to inside
using JsonText = std::string;           // a value, as print_json() writes it

// A key, the kinds of value that its trainer takes, and the value that it has where nobody sets it.
struct SpaceKey {
  std::vector<std::string> kinds;
  JsonText fallback = "null";
};

// Of the release of a package: from `since` on, before `before`; "" is no bound.
struct Range {
  std::string package, since, before;
};

using Changes = std::map<std::string, std::optional<JsonText>>;  // nothing: the key is taken out

struct SpaceChoice {
  std::string name;
  Changes changes;
  std::optional<Range> range;
};

// One thing that can be set in several ways; a choice takes out the keys of its axis that it does not set.
struct Axis {
  std::string allow;  // what the person has to allow; "": nothing
  std::vector<SpaceChoice> choices;
};

struct Rename {
  std::string from, to;
  Range range;
};

// All conditions met by a config: it is not run.
struct Rule {
  // Of a key, or "$command" or "$name": a value, one of several, {"not": value} or {"has": text}.
  std::map<std::string, JsonText> when;
  std::string reason;
};

struct SpaceProfile {
  std::vector<std::string> forms;  // of its config: "yaml", "json"; none: it has arguments only
  std::string argument;            // "--{key} {value}"; "": it has none
  std::string removal;             // "~{key}": takes out what a config has; "": it is set to what it is by itself
  std::map<std::string, std::string> arguments;  // of keys that have others
  bool dotted = false;                           // nested keys are arguments of their own, else a mapping is one value
  std::map<std::string, std::string> releases;
  std::map<std::string, SpaceKey> settings;  // by dotted path
  std::vector<Rename> renames;
  std::vector<Axis> axes;
  std::string micro_batch, accumulation;     // keys; "": neither
  std::map<std::string, std::string> likes;  // by choice or combination, memtune's own strategy that does nearly that
  std::vector<std::string> combinations;
  std::vector<Rule> rules;
};

// UsageError for an unknown trainer, with the nearest.
SpaceProfile read_space_profile(const std::string& trainer);

// What a condition asks for: a value, one of several, {"not": ...} or {"has": text}.
bool matches(const nlohmann::json& value, const nlohmann::json& wanted);

bool in_range(const Range& range, const std::map<std::string, std::string>& releases);

}  // namespace memtune::trainer
