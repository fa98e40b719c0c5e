#include "cli/command_words.h"

#include <algorithm>
#include <map>
#include <set>

#include "cli/offer.h"
#include "cli/option_groups.h"
#include "core/base/text.h"
#include "core/base/view_options.h"

namespace memtune::cli {
namespace {

// Options in the short help of commands with many; other commands show all.
const std::map<std::string, std::set<std::string>> kEssential = {
    {"sweep",
     {"--model", "--input", "--loss", "--batch", "--seq", "--strategy", "--budget", "--trainer", "--config", "--try",
      "--ranks", "--device", "--json", "--out"}},
    {"profile",
     {"--model", "--input", "--batch", "--seq", "--strategy", "--plan", "--steps", "--device", "--json", "--out"}},
    {"plan", {"--from", "--budget", "--batch", "--ranks", "--machine", "--model", "--write", "--json"}},
    {"fit",
     {"--card", "--batch", "--seq", "--dtype", "--lora", "--load-in", "--optimizer", "--loss-impl", "--strategy",
      "--trainer", "--config", "--write", "--json"}},
    {"run",
     {"--model", "--input", "--batch", "--seq", "--strategy", "--plan", "--steps", "--save-every", "--resume",
      "--ranks", "--device", "--out"}},
};

void mark_essential(CommandWords& command) {
  const auto essential = kEssential.find(command.name);
  if (essential == kEssential.end()) return;
  for (OptionWords& option : command.options)
    option.essential = option.alone || essential->second.contains(option.names.back());
}

OptionWords option_words(CLI::Option& option) {
  OptionWords words;
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  words.alone = words.names.empty();
  if (words.alone) words.names = {option.get_name()};
  if (option.get_items_expected_max() > 0) words.value = trim(option.get_type_name());
  words.help = option.get_description();
  words.offers = offered(option);
  if (words.alone && words.value.empty() && words.offers.empty()) words.value = "FILE";  // A and B of diff
  words.required = option.get_required();
  words.repeats = !words.value.empty() && option.get_items_expected_max() > 1;
  words.group = words.alone ? kArguments : option.get_group();
  if (std::ranges::find(kGroups, words.group) == kGroups.end()) words.group = kOther;
  return words;
}

// Options of the viewer, which parses its own arguments.
std::vector<OptionWords> viewer_words() {
  std::vector<OptionWords> options = {{{"run"}, "DIR|FILE", kViewPaths, kArguments, {}, true, false, true}};
  for (const ViewCommandOption& option : view_options())
    options.push_back({{option.name}, option.value, option.help, kOther, option.words});
  options.push_back({{"-h", "--help"}, "", "print this help", kCommon, {}});
  return options;
}

void read_description(const std::string& description, CommandWords& command) {
  bool examples = false;
  for (const std::string& line : split(description, '\n')) {
    if (command.summary.empty()) {
      command.summary = line.ends_with('.') ? line.substr(0, line.size() - 1) : line;
    } else if (line == "Examples:") {
      examples = true;
    } else if (examples && !line.empty()) {
      command.examples.push_back(trim(line));
    } else {
      examples = false;
      command.text += line + "\n";
    }
  }
  command.text = trim(command.text);
}

CommandWords read_command(CLI::App& app) {
  CommandWords command;
  command.name = app.get_name();
  read_description(app.get_description(), command);
  command.behind = app.get_footer();
  for (CLI::Option* option : app.get_options()) command.options.push_back(option_words(*option));
  if (app.get_prefix_command()) command.options = viewer_words();
  std::ranges::stable_sort(command.options, {}, [](const OptionWords& option) {
    return std::ranges::find(kGroups, option.group) - kGroups.begin();
  });
  mark_essential(command);
  return command;
}

}  // namespace

bool OptionWords::takes(const std::string& kind) const {
  const std::vector<std::string> kinds = split(value, '|');
  return std::ranges::count(kinds, kind) + std::ranges::count(kinds, "[" + kind + "]") > 0;
}

std::vector<CommandWords> command_words(CLI::App& app) {
  std::vector<CommandWords> commands = {read_command(app)};
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    commands.push_back(read_command(*command));
  return commands;
}

}  // namespace memtune::cli
