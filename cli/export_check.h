// `memtune export --check`: what a trainer's configuration amounts to, and what of it does nothing.
#pragma once

#include <map>
#include <string>

#include "cli/console.h"

namespace memtune::cli {

struct CheckedConfig {
  std::string trainer, file;
  std::string run;  // folder of a sweep whose figures are told, where there is one
  std::map<std::string, std::string> releases;
  ConsoleFlags console;
};

// Prints; kFailed where a memory setting does not do what it says.
int check_trainer_config(const CheckedConfig& config);

}  // namespace memtune::cli
