// The help of the program or of a command for a terminal: out of the same words as its manual page, options under their
// headings, every line within the width.
#pragma once

#include <span>
#include <string>

#include "cli/command_words.h"

namespace memtune::cli {

// `all` is what command_words() gave: the program's own help lists the commands. Ends with a line feed.
std::string help_text(const CommandWords& command, std::span<const CommandWords> all, int width);

// A command of a shell on lines that fit, each but the last ended by a backslash; quoted words stay whole.
std::string wrap_command(const std::string& line, int width);

}  // namespace memtune::cli
