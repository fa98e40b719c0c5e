// The command line: finds the command, parses its flags and runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_flags.h"
#include "cli/console.h"

namespace memtune::cli {

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 130 };

// Set by the command that was found; returns the exit code.
using Action = std::function<int()>;

// Each adds one command. The description of `command` starts with a line that says what it does; examples follow.
void add_sweep(CLI::App& app, Action& action, const CommandWordsBehind& behind);
void add_profile(CLI::App& app, Action& action, const CommandWordsBehind& behind);
void add_run(CLI::App& app, Action& action);
void add_strategies(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_fit(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_view(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_diff(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action, const CommandWordsBehind& behind);
void add_completion(CLI::App& app, Action& action);

// -q and --no-color.
void add_console_flags(CLI::App& command, ConsoleFlags& flags);

// Adds --json [FILE|-] to a command that otherwise prints text. `path` is "" if the flag is missing, "-" without a
// file.
void add_json_flag(CLI::App& command, std::string& path);

// Repeatable: each occurrence takes one value.
CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& help);

// Creates all commands. Parsing sets `action`, which must outlive the App.
std::unique_ptr<CLI::App> make_app(Action& action, const CommandWordsBehind& behind = {});

// Returns the exit code, or throws an Error for main to print.
int run(const std::vector<std::string>& arguments);

}  // namespace memtune::cli
