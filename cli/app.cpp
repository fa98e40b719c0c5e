#include "cli/app.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::cli {
namespace {

constexpr char kDescription[] =
    R"(memtune measures which memory strategy suits a model on this machine: it runs real training steps under each.

Examples:
  memtune sweep                                      a small model, to see what it does
  memtune sweep --model model.pt --input 'tokens:int64[4,4096]<32000' --loss next_token --budget 16GiB
  memtune export --trainer torchtune                 the recommendation as a trainer's configuration

memtune COMMAND --help shows examples and flags of a command.)";

// The list of commands shows the first line of each; its own --help has the rest.
class BriefFormatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream line;
    const std::string description = command->get_description();
    CLI::detail::format_help(line, command->get_name(), description.substr(0, description.find('\n')), 14);
    return line.str();
  }
};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// CLI11 would only say that it did not expect the word.
void check_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = command_names(app);
  if (word.starts_with("-") || std::find(names.begin(), names.end(), word) != names.end()) return;
  throw UsageError(unknown_name("command", word, names));
}

void check_extras(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  const std::string help = "memtune " + command.get_name() + " --help lists what it takes";
  if (!word.starts_with("-")) throw UsageError("unexpected argument '" + extras.front() + "'; " + help);
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  const std::string near = nearest(word, flags);
  throw UsageError("unknown flag '" + word + "'" + (near.empty() ? "; " : "; did you mean '" + near + "'? ") + help);
}

// CLI11 takes the next flag for the value of one that lacks its own.
void check_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.starts_with("--")) throw UsageError(option->get_name() + " needs a value, not '" + value + "'");
    }
  }
}

// CLI11's message on one line.
std::string one_line(const std::string& text) { return join(split(trim(text), '\n'), " "); }

int parse(CLI::App& app, std::vector<std::string> arguments) try {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  app.parse(arguments);
  return -1;
} catch (const CLI::Success& help) {
  return app.exit(help);
} catch (const CLI::ParseError& error) {
  throw UsageError(one_line(error.what()));
}

}  // namespace

void add_console_flags(CLI::App& command, ConsoleFlags& flags) {
  command.add_flag("-q,--quiet", flags.quiet, "say nothing on stderr but errors");
  command.add_flag("--no-color", flags.no_color, "no colors (as the environment variable NO_COLOR)");
}

CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  return command.add_option(name, values, help)->allow_extra_args(false);
}

std::unique_ptr<CLI::App> make_app(Action& action) {
  auto made = std::make_unique<CLI::App>(kDescription, "memtune");
  CLI::App& app = *made;
  app.formatter(std::make_shared<BriefFormatter>());  // commands take it over
  app.set_version_flag("--version", "memtune " MEMTUNE_VERSION, "print the version");
  app.require_subcommand(1);
  add_sweep(app, action);
  add_profile(app, action);
  add_strategies(app, action);
  add_plan(app, action);
  add_report(app, action);
  add_view(app, action);
  add_export(app, action);
  add_diff(app, action);
  add_doctor(app, action);
  for (CLI::App* command : app.get_subcommands({})) command->allow_extras();
  return made;
}

int run(const std::vector<std::string>& arguments) {
  Action action;
  const std::unique_ptr<CLI::App> made = make_app(action);
  CLI::App& app = *made;
  if (arguments.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  check_command(app, arguments.front());
  if (const int code = parse(app, arguments); code >= 0) return code;
  const CLI::App& command = *app.get_subcommands().front();
  check_values(command);
  if (!command.get_prefix_command()) check_extras(command);
  return action();
}

}  // namespace memtune::cli
