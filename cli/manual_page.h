// Writes a command's manual page in roff, for man-db and mandoc.
#pragma once

#include <span>
#include <string>

#include "cli/command_words.h"

namespace memtune::cli {

// "memtune" or "memtune-sweep", in section 1.
std::string manual_name(const CommandWords& command);

// `all` is the result of command_words(); the program's own page lists the commands. `date`: 2026-01-31.
std::string manual_page(const CommandWords& command, std::span<const CommandWords> all, const std::string& date);

}  // namespace memtune::cli
