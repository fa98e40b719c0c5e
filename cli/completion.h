// Shell completion scripts for commands, options and the words, files or folders that an option takes.
#pragma once

#include <span>
#include <string>

#include "cli/command_words.h"

namespace memtune::cli {

// `all` is the result of command_words().
std::string bash_completion(std::span<const CommandWords> all);
std::string zsh_completion(std::span<const CommandWords> all);
std::string fish_completion(std::span<const CommandWords> all);

}  // namespace memtune::cli
