// The command line: finds the command, reads its flags, runs it.
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

// Set by the command that was named; gives the exit code.
using Action = std::function<int()>;

// One a command. The description of `command` begins with a line of what it does, then examples.
void add_sweep(CLI::App& app, Action& action, const CommandWordsBehind& behind);
void add_profile(CLI::App& app, Action& action, const CommandWordsBehind& behind);
void add_run(CLI::App& app, Action& action);
void add_strategies(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_view(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_diff(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action, const CommandWordsBehind& behind);

// -q and --no-color.
void add_console_flags(CLI::App& command, ConsoleFlags& flags);

// --json [FILE|-] for commands that otherwise print for people; "" where it was not given, "-" without a file.
void add_json_flag(CLI::App& command, std::string& path);

// Repeatable: each occurrence takes one value.
CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& help);

// All commands; the one that a parse finds sets `action`, which must outlive the App.
std::unique_ptr<CLI::App> make_app(Action& action, const CommandWordsBehind& behind = {});

// The exit code, or throws an Error for main to print.
int run(const std::vector<std::string>& arguments);

}  // namespace memtune::cli
