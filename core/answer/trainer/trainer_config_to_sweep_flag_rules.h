// The data of profiles/training/<name>.json: how a trainer's config maps to flags of memtune's own sweep, and which of
// its keys a sweep does not depend on. docs/developer/extend.md explains the fields.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/answer/trainer/trainer_profile.h"

namespace memtune::trainer {

// Applies to a config that meets all of `when` and sets one of the keys `any`, if there are some. Has one of `flag`
// (with its value), `note` and `refusal`.
struct ConfigToSweepFlagRule {
  std::string flag, value, note, refusal;
  bool images = false;  // a refusal that only concerns images
  Conditions when;
  std::vector<std::string> any;  // patterns
};

// "like" in the file takes `no_effect` and `harmless` of another trainer too.
struct TrainerConfigToSweepFlagRules {
  std::string command;                         // that trains with the config: "axolotl train {config}"; "": unknown
  std::vector<ConfigToSweepFlagRule> rows;     // the first of a flag counts
  std::map<std::string, std::string> modules;  // the trainer's name of a module -> transformers'
  std::vector<std::string> lists;              // keys whose text is a list with commas
  std::vector<std::string> no_effect;  // patterns of keys that change neither memory, nor time, nor what is trained
  std::map<std::string, std::vector<JsonText>> harmless;  // values for which that is true of other keys
};

// Throws UsageError for a trainer without such a profile.
TrainerConfigToSweepFlagRules read_training_profile(const std::string& trainer);

// Whether `pattern` is the dotted path or one around it: "dataset" covers "dataset.split". '*' is any part of a name.
bool covers(const std::string& pattern, const std::string& path);

}  // namespace memtune::trainer
