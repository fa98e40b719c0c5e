// Checks the memory settings of a trainer's config: which have no effect, and which strategy they amount to.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/answer/trainer/strategy_config_translator.h"

namespace memtune::trainer {

struct ConfigProblem {
  size_t line = 0;  // of the config, from 1; 0: not found in it
  std::string text;
};

struct ConfigProblemsAndEquivalentStrategy {
  std::vector<ConfigProblem> problems;  // ordered by line: unknown keys, wrong kinds, settings that exclude each other
  std::vector<std::string> notes;       // effects that depend on more than the config, or are not what they seem
  std::optional<ConfigEquivalentStrategy> meaning;  // none: no strategy of memtune matches
  std::string why_none;                             // in one sentence; "" if there is a meaning
};

// `text` is the config, and `name` its file name. Text in a form that the trainer reads is a config, and a .py file a
// program. Other text is read as command line arguments, with comments and backslashes at line ends. `releases` as in
// ConfigExportReleasesAndUserConfig. `blocks` of the model; 0: unknown. Throws a one-line UsageError for an unknown
// trainer or an unreadable config.
ConfigProblemsAndEquivalentStrategy check_config(const std::string& trainer, const std::string& text,
                                                 const std::string& name,
                                                 const std::map<std::string, std::string>& releases, int blocks = 0);

}  // namespace memtune::trainer
