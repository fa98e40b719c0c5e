// Output: answers go to stdout or a file, everything else to stderr.
#pragma once

#include <string>
#include <string_view>

#include "core/answer/report/text/table.h"

namespace memtune::cli {

// Output flags of every command.
struct ConsoleFlags {
  bool quiet = false;  // only errors on stderr
  bool no_color = false;
};

// The table style for stdout: width of the terminal, and colors on a terminal (unless NO_COLOR, TERM=dumb or
// --no-color).
report::TerminalCapabilities table_style(const ConsoleFlags& flags);

// Width of the terminal at `descriptor` in columns; 0 if it is no terminal.
int terminal_width(int descriptor);

// Writes an answer. `path` "-" is stdout. Throws IoError, also if stdout fails.
void write_output(const std::string& path, std::string_view text);

// Checks before the work begins that write_output can write to `path`. Throws UsageError that begins with the flag.
void check_output(const std::string& flag, const std::string& path);
// Checks that --out is a folder or does not exist. Throws UsageError.
void check_out(const std::string& path);
// check_output for two flags. Only one of them may be stdout.
void check_outputs(const std::string& flag, const std::string& path, const std::string& other_flag,
                   const std::string& other_path);

// `text` wrapped to the right of `lead`, which is `lead_width` wide on the terminal.
std::string hanging(const std::string& lead, int lead_width, const std::string& text, int width);

// Prints one line to stderr, unless quiet.
void say(const ConsoleFlags& flags, const std::string& line);

}  // namespace memtune::cli
