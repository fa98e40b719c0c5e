// `memtune export --check`: prints the strategy that a trainer's config amounts to, and its settings without effect.
#pragma once

#include <map>
#include <string>

#include "cli/console.h"

namespace memtune::cli {

struct CheckedConfig {
  std::string trainer, file;
  std::string run;  // folder of a sweep whose figures are printed, if it is one
  std::map<std::string, std::string> releases;
  ConsoleFlags console;
};

// Prints the result. Returns kFailed if a memory setting has no effect.
int check_trainer_config(const CheckedConfig& config);

}  // namespace memtune::cli
