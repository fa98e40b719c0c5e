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

// Of a key, or "$command" or "$name": a value, one of several, {"not": value} or {"has": text}.
using Conditions = std::map<std::string, JsonText>;

// All conditions met by a config: it is not run; of a note, it is, and does something else than it seems to.
struct Rule {
  Conditions when;
  std::string reason;
  bool note = false;
};

// The keys of one of memtune's strategies. They are read both ways: written for the strategy, and a config that has
// them amounts to it.
struct Expression {
  std::string strategy;  // canonical; one of "{n}", "{n-1}" and "{names}" stands for what the keys have at "{n}"...
  Conditions set;        // what a config has; null: it has not the key. Written as it is, where it is a value
  std::map<std::string, JsonText> also;  // is written with them, and may be otherwise in a config
  Conditions when;                       // of other keys
  std::optional<Range> range;
  bool divides = false;  // n has to divide the number of blocks, else the trainer takes other ones
  bool read = false;     // is never written
  bool nearly = false;   // a config that has them does nearly that
  bool stated = false;   // a config that says nothing about them amounts to nothing known
  std::vector<std::string> notes;
};

// What a config has so that the trainer shards parameters in one way.
struct Sharding {
  std::map<std::string, JsonText> set;
  std::vector<std::string> notes;
};

struct SpaceProfile {
  std::vector<std::string> forms;  // of its config: "yaml", "json", "toml"; none: it has arguments only
  std::string argument;            // "--{key} {value}"; "": it has none
  std::string removal;             // "~{key}": takes out what a config has; "": it is set to what it is by itself
  std::map<std::string, std::string> arguments;  // of keys that have others
  bool dotted = false;                           // nested keys are arguments of their own, else a mapping is one value
  std::map<std::string, std::string> releases;
  std::map<std::string, SpaceKey> settings;  // by dotted path
  std::vector<Rename> renames;
  std::vector<Axis> axes;
  std::string micro_batch, accumulation;                   // keys; "": neither
  std::vector<Expression> strategies;                      // the first that fits counts
  std::map<std::string, Sharding> sharding;                // by --reshard's words
  std::map<std::string, std::vector<std::string>> names;   // of memtune's save=, in the trainer's words
  std::map<std::string, std::vector<std::string>> closed;  // mappings, with what else than `settings` may stand in them
  std::map<std::string, std::string> program;  // of a config that is a program: what stands there for a value
  std::string import;                          // and the line that it needs
  std::string loss;                            // what its figures differ in from memtune's
  std::vector<std::string> combinations;
  std::vector<Rule> rules;
};

// UsageError for an unknown trainer, with the nearest.
SpaceProfile read_space_profile(const std::string& trainer);

// What a condition asks for: a value, one of several, {"not": ...} or {"has": text}.
bool matches(const nlohmann::json& value, const nlohmann::json& wanted);

bool in_range(const Range& range, const std::map<std::string, std::string>& releases);

}  // namespace memtune::trainer
