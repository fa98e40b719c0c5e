// The commands and options as plain data, for manual pages and completion. They are read from the App that parses them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace memtune::cli {

struct OptionWords {
  std::vector<std::string> names;  // "-o", "--output"; of a positional argument "run"
  std::string value;               // "FILE|-"; empty: no value
  std::string help;
  std::string group;                // its heading, of kGroups
  std::vector<std::string> offers;  // allowed or suggested values
  bool alone = false;               // positional argument
  bool required = false;
  bool repeats = false;
  bool essential = true;                      // also in the short help
  bool takes(const std::string& kind) const;  // "FILE" for "FILE|-"; "DIR"
};

struct CommandWords {
  std::string name;     // "sweep"; "memtune" for the program itself
  std::string summary;  // first line of the description, without the dot
  std::string text;     // rest of the description without examples; may be empty
  std::vector<std::string> examples;
  std::vector<OptionWords> options;  // ordered by group
  std::string behind = {};           // after the options: "-- COMMAND..."
};

// The program first, then its commands.
std::vector<CommandWords> command_words(CLI::App& app);

}  // namespace memtune::cli
