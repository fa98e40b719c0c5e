// Translates a trainer's config to flags of memtune's own sweep: model, batch and training. The rules for keys are
// data, profiles/training/*.json; docs/developer/extend.md explains them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace memtune::trainer {

struct MemtuneFlagFromConfig {
  std::string name, value;        // without "--"; a switch has "true"
  std::vector<std::string> keys;  // config keys that it comes from; empty: the trainer's default
};

struct ConfigToFlagsTranslation {
  std::vector<MemtuneFlagFromConfig> flags;                 // each name once
  std::vector<std::string> notes;                           // differences between this sweep and the trainer
  std::vector<std::string> refusals;                        // the config is other training than memtune's own
  std::vector<std::string> unmeasured;                      // "key: value" of keys that no flag and no note is about
  std::map<std::string, std::vector<std::string>> missing;  // flag -> keys that it needs and the config lacks
  std::string strategy;                                     // memtune's strategy most similar to the config; "": none
  std::string why_none;                                     // why there is none, in one sentence
  std::string command;                                      // that trains with "{config}"; "": unknown
};

// `text` is the config and `name` its file name (.yaml, .yml or .json); both "" without a config. Settings among the
// words of `command` take precedence. Throws a one-line UsageError for an unknown trainer, or one whose config does not
// define the model. Also throws for an unreadable config or a key of the wrong kind.
// `UnsupportedImageInputPolicy::left_out` makes notes of the refusals that concern images alone.
enum class UnsupportedImageInputPolicy { refused, left_out };
ConfigToFlagsTranslation native_flags(const std::string& trainer, const std::string& text, const std::string& name,
                                      const std::vector<std::string>& command = {},
                                      UnsupportedImageInputPolicy images = UnsupportedImageInputPolicy::refused);

}  // namespace memtune::trainer
