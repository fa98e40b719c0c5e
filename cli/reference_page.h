// Writes the reference of all commands in Markdown, docs/reference/cli.md.
#pragma once

#include <span>
#include <string>

#include "cli/command_words.h"

namespace memtune::cli {

// `commands` is the result of command_words(): the program first.
std::string reference_page(std::span<const CommandWords> commands);

}  // namespace memtune::cli
