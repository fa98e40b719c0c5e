// Whether a config does what it says: what of its memory settings nothing comes of, and what they amount to.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/trainer/dialect.h"

namespace memtune::trainer {

struct Problem {
  size_t line = 0;  // of the config, from 1 on; 0: it stands nowhere
  std::string text;
};

struct ConfigCheck {
  std::vector<Problem> problems;   // by line: unknown keys, wrong kinds, settings that exclude each other
  std::vector<std::string> notes;  // what depends on more than the config, or is otherwise than it seems
  std::optional<Meaning> meaning;  // nothing: no strategy of memtune's
};

// `text` is the config named `name`: of a form that the trainer reads, else arguments as on a command line (comments
// and line ends with a backslash may be in it) or, named .py, a program. `releases` as of ExportSettings; `blocks` of
// the model, 0: not known. UsageError, one line: an unknown trainer, text that is no such config.
ConfigCheck check_config(const std::string& trainer, const std::string& text, const std::string& name,
                         const std::map<std::string, std::string>& releases, int blocks = 0);

}  // namespace memtune::trainer
