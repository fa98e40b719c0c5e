// The help text for a terminal, from the same data as the manual page: options under headings, lines wrapped to the
// width.
#pragma once

#include <span>
#include <string>

#include "cli/command_words.h"

namespace memtune::cli {

// What --help prints, at most kShortHelpLines lines at 80 columns, and what --help-all prints.
enum class HelpDetail { brief, full };
constexpr int kShortHelpLines = 40;

// `all` is the result of command_words(); the program's own help lists the commands. Brief help has all options if they
// fit, else the essential ones. Ends with a line feed.
std::string help_text(const CommandWords& command, std::span<const CommandWords> all, int width, HelpDetail detail);

// A shell command wrapped with backslashes. Quoted words stay whole.
std::string wrap_command(const std::string& line, int width);

}  // namespace memtune::cli
