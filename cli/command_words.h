// What the command line takes, as plain data: read from the App that parses it, for manual pages and completion.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace memtune::cli {

struct OptionWords {
  std::vector<std::string> names;  // "-o", "--output"; of an argument that stands alone "run"
  std::string value;               // "FILE|-"; empty: takes none
  std::string help;
  std::string group;                // the heading that it stands under, of kGroups
  std::vector<std::string> offers;  // words that the value may be
  bool alone = false;               // an argument without a name before it
  bool required = false;
  bool repeats = false;
  bool takes(const std::string& kind) const;  // "FILE" of "FILE|-"; "DIR"
};

struct CommandWords {
  std::string name;     // "sweep"; of the program itself "memtune"
  std::string summary;  // its first line, without the dot
  std::string text;     // the rest of the description, without the examples; may be empty
  std::vector<std::string> examples;
  std::vector<OptionWords> options;  // in the order of their groups
  std::string behind = {};           // what may stand behind the options: "-- COMMAND..."
};

// The program, then its commands.
std::vector<CommandWords> command_words(CLI::App& app);

}  // namespace memtune::cli
