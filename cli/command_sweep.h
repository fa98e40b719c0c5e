// memtune sweep -- COMMAND: measures variants of the user's own training command.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/run_folder.h"
#include "cli/sweep_answer.h"
#include "core/sweep/commands/command_sweep.h"

namespace memtune::cli {

struct CommandSweepFlags {
  std::vector<std::string> command, tries;
  std::string trainer, config, like;                 // "": not given
  std::vector<std::string> allowed;                  // that may change the training
  sweep::CommandSweepSettings settings;              // without variants
  std::optional<sweep::EngineSweepSettings> native;  // memtune's own trials, which choose variants; none: all run
  bool plan_asked = false;                           // --model was given
  AnswerFlags answer;
  RunFolder folder;
};

// Returns the exit code. Throws UsageError, IoError.
int sweep_command(CommandSweepFlags flags);

}  // namespace memtune::cli
