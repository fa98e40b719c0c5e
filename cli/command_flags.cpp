#include "cli/command_flags.h"

#include <algorithm>

#include "cli/flags.h"
#include "cli/option_groups.h"
#include "core/base/error.h"
#include "core/base/shell_line.h"

namespace memtune::cli {

void check_flags_of_command(const CLI::App& command, const std::vector<std::string>& flags, const std::string& why) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_lnames().empty() ? option->get_name() : "--" + option->get_lnames().front();
    if (option->count() > 0 && std::ranges::find(flags, name) == flags.end()) throw UsageError(name + why);
  }
}

void add_show(CLI::App& app, ModelFlags& flags, const CommandWordsBehind& behind) {
  const auto set = [&flags, given = behind.has_value()] {
    if (!given) throw UsageError("--show is for training commands: it goes with -- and a command");
    flags.show = true;
  };
  app.add_flag_callback("--show", set, "print the output of a command to stderr, while it runs")->group(kMeasuring);
}

sweep::CommandSweepSettings command_settings(const ModelFlags& flags, const std::vector<std::string>& command) {
  constexpr int64_t kMaxSteps = 100000;
  sweep::CommandSweepSettings settings;
  settings.model = shell_line(command);
  settings.sweep.command = command;
  settings.sweep.steps = static_cast<int>(integer_flag("--steps", flags.steps, 1, kMaxSteps));
  if (flags.warmup == "0")
    throw UsageError("--warmup: the start of a command's first step is not seen; it takes at least 1");
  settings.sweep.warmup = static_cast<int>(integer_flag("--warmup", flags.warmup, 1, kMaxSteps));
  settings.limit = duration_flag("--timeout", flags.timeout);
  if (!flags.memory_cap.empty()) settings.sweep.memory_cap_bytes = bytes_flag("--memory-cap", flags.memory_cap);
  check_out(flags.out);
  settings.directory = flags.out;
  settings.show = flags.show;
  return settings;
}

}  // namespace memtune::cli
