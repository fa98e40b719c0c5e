// Where words go: answers to stdout or a file, everything else to stderr.
#pragma once

#include <string>
#include <string_view>

#include "core/report/text/table.h"

namespace memtune::cli {

// What the person asked of every command's output.
struct ConsoleFlags {
  bool quiet = false;  // stderr only for errors
  bool no_color = false;
};

// The table's looks on stdout as it is: colors on a terminal (unless NO_COLOR, TERM=dumb or --no-color), its width.
report::TableStyle table_style(const ConsoleFlags& flags);

// Columns of the terminal behind `descriptor`, or 0 when there is none.
int terminal_width(int descriptor);

// Answers. `path` "-" is stdout. Throws IoError, also when stdout cannot take it.
void write_output(const std::string& path, std::string_view text);

// That write_output will find a folder to write into: UsageError that begins with the flag, before work is begun for
// nothing.
void check_output(const std::string& flag, const std::string& path);
// That --out names a folder, or nothing that is there.
void check_out(const std::string& path);
// Of two flags; stdout is for one of them.
void check_outputs(const std::string& flag, const std::string& path, const std::string& other_flag,
                   const std::string& other_path);

// One line to stderr, unless quiet.
void say(const ConsoleFlags& flags, const std::string& line);

}  // namespace memtune::cli
