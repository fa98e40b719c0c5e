#include "cli/app.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/command_words.h"
#include "cli/foreign_flags.h"
#include "cli/help.h"
#include "cli/option_groups.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::cli {
namespace {

constexpr int kHelpWidth = 80;  // without a terminal

constexpr char kDescription[] =
    R"(memtune finds the fastest way to train a model in the GPU memory that is there: it runs real training steps.

Examples:
  memtune sweep                                      on a small built-in model
  memtune sweep --model path/to/llama --batch 4 --seq 4096 --budget 16GiB
  memtune sweep --trainer axolotl --config mine.yaml
  memtune export --trainer axolotl                   the answer as trainer keys

memtune help COMMAND shows examples and options of a command.)";

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Checks the command's name, because CLI11 would only report an unexpected word.
void check_command_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names = command_names(app);
  if (std::ranges::find(names, word) != names.end()) return;
  const std::vector<std::string> own = {"-h", "--help", "--help-all", "-V", "--version"};
  if (std::ranges::find(own, word) != own.end()) return;
  if (word.starts_with("-")) throw UsageError("a command comes first, not '" + word + "'; memtune help lists them");
  names.insert(names.end(), {"help", "version"});
  throw UsageError(unknown_name("command", word, names));
}

void check_extras(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  const std::string help = "memtune " + command.get_name() + " --help lists what it takes";
  if (!word.starts_with("-")) {
    const std::string script =
        word.ends_with(".py") ? "a script is measured as it is: memtune profile -- python " + word : help;
    throw UsageError("unexpected argument '" + extras.front() + "'; " + script);
  }
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  const std::string ours = flag_for(word);
  const bool has_it = std::ranges::find(flags, ours.substr(0, ours.find(' '))) != flags.end();
  const std::string near = has_it ? ours : nearest(word, flags);
  throw UsageError("unknown flag '" + word + "'" + (near.empty() ? "; " : "; did you mean '" + near + "'? ") + help);
}

// Checks for missing values, because CLI11 takes the next flag as the value.
void check_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.starts_with("--")) throw UsageError(option->get_name() + " needs a value, not '" + value + "'");
    }
  }
}

// CLI11's message on one line.
std::string one_line(const std::string& text) { return join(split(trim(text), '\n'), " "); }

// Replaces words that other tools have as flags: "help sweep" becomes "sweep --help".
std::vector<std::string> as_flags(std::vector<std::string> words) {
  if (words.front() == "version") return {"--version"};
  if (words.front() != "help") return words;
  if (words.size() == 1) return {"--help"};
  return {words[1], "--help"};
}

std::string help_of(CLI::App& app, int descriptor, HelpDetail detail = HelpDetail::brief) {
  const std::vector<CommandWords> all = command_words(app);
  const std::vector<CLI::App*> named = app.get_subcommands();
  const std::string name = named.empty() ? app.get_name() : named.front()->get_name();
  const int width = terminal_width(descriptor);
  return help_text(*std::ranges::find(all, name, &CommandWords::name), all, width > 0 ? width : kHelpWidth, detail);
}

// Removes the words after "--" from `words` and returns them: the user's command, with flags of its own.
CommandWordsBehind take_command(std::vector<std::string>& words) {
  const auto end = std::ranges::find(words, "--");
  static const std::vector<std::string> kTaking = {"profile", "sweep", "doctor"};
  if (std::ranges::find(kTaking, words.front()) == kTaking.end() || end == words.end()) return {};
  std::vector<std::string> command(end + 1, words.end());
  words.erase(end, words.end());
  return command;
}

int parse(CLI::App& app, std::vector<std::string> arguments) try {
  std::ranges::reverse(arguments);  // CLI11 reads them from the back
  app.parse(arguments);
  return -1;
} catch (const CLI::CallForHelp&) {
  write_output("-", help_of(app, STDOUT_FILENO));
  return kDone;
} catch (const CLI::CallForAllHelp&) {
  write_output("-", help_of(app, STDOUT_FILENO, HelpDetail::full));
  return kDone;
} catch (const CLI::Success& version) {
  return app.exit(version);
} catch (const CLI::ParseError& error) {
  throw UsageError(one_line(error.what()));
}

}  // namespace

void add_console_flags(CLI::App& command, ConsoleFlags& flags) {
  command.add_flag("-q,--quiet", flags.quiet, "say nothing on stderr but errors");
  command.add_flag("--no-color", flags.no_color, "no colors (as the environment variable NO_COLOR)");
  put_under(kCommon, command, {"--quiet", "--no-color", "--help", "--help-all"});
}

void add_json_flag(CLI::App& command, std::string& path) {
  const auto take = [&path](const std::string& given) { path = given.empty() ? "-" : given; };
  command.add_option_function<std::string>("--json", take, "as JSON (default: to stdout)")
      ->expected(0, 1)
      ->type_name("[FILE|-]");
}

CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  return command.add_option(name, values, help)->allow_extra_args(false);
}

std::unique_ptr<CLI::App> make_app(Action& action, const CommandWordsBehind& behind) {
  auto made = std::make_unique<CLI::App>(kDescription, "memtune");
  CLI::App& app = *made;
  app.set_help_flag("-h,--help", "print this help");  // commands inherit both
  app.set_help_all_flag("--help-all", "print all options and examples");
  app.set_version_flag("-V,--version", "memtune " MEMTUNE_VERSION, "print the version");
  app.require_subcommand(1);
  add_sweep(app, action, behind);
  add_profile(app, action, behind);
  add_run(app, action);
  add_strategies(app, action);
  add_plan(app, action);
  add_fit(app, action);
  add_report(app, action);
  add_view(app, action);
  add_convert(app, action);
  add_export(app, action);
  add_diff(app, action);
  add_doctor(app, action, behind);
  add_completion(app, action);
  for (CLI::App* command : app.get_subcommands({})) command->allow_extras();
  return made;
}

int run(const std::vector<std::string>& arguments) {
  Action action;
  if (arguments.empty()) {
    std::fputs(help_of(*make_app(action), STDERR_FILENO).c_str(), stderr);
    return kUsage;
  }
  std::vector<std::string> words = as_flags(arguments);
  const CommandWordsBehind behind = take_command(words);
  const std::unique_ptr<CLI::App> made = make_app(action, behind);
  CLI::App& app = *made;
  check_command_word(app, words.front());
  if (const int code = parse(app, words); code >= 0) return code;
  const CLI::App& command = *app.get_subcommands().front();
  check_values(command);
  if (!command.get_prefix_command()) check_extras(command);
  return action();
}

}  // namespace memtune::cli
