// memtune sweep -- COMMAND: variants of a training command that is not memtune's.
#pragma once

#include <string>
#include <vector>

#include "cli/sweep_answer.h"
#include "core/sweep/command_sweep.h"

namespace memtune::cli {

struct CommandSweepFlags {
  std::vector<std::string> command, tries;
  sweep::CommandSweepSettings settings;  // all but its variants
  AnswerFlags answer;
};

// The exit code. Throws UsageError, IoError.
int sweep_command(CommandSweepFlags flags);

}  // namespace memtune::cli
