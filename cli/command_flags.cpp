#include "cli/command_flags.h"

#include <algorithm>

#include "cli/flags.h"
#include "core/base/error.h"

namespace memtune::cli {

void check_flags_of_command(const CLI::App& command, const std::vector<std::string>& flags) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_lnames().empty() ? option->get_name() : "--" + option->get_lnames().front();
    if (option->count() > 0 && std::ranges::find(flags, name) == flags.end())
      throw UsageError(name + " is for models of memtune's own; a command behind -- brings what it trains");
  }
}

attach::StepCounts step_counts(const ModelFlags& flags) {
  constexpr int64_t kMostSteps = 100000;
  attach::StepCounts steps;
  steps.measured = static_cast<int>(integer_flag("--steps", flags.steps, 1, kMostSteps));
  if (flags.warmup == "0") throw UsageError("--warmup: a command's first step has no beginning; it takes at least 1");
  steps.warmup = static_cast<int>(integer_flag("--warmup", flags.warmup, 1, kMostSteps));
  return steps;
}

}  // namespace memtune::cli
