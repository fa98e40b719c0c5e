// memtune sweep -- COMMAND: variants of a training command that is not memtune's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/sweep_answer.h"
#include "core/sweep/command_sweep.h"

namespace memtune::cli {

// What of training a trainer's space leaves as it is, unless --allow says otherwise.
inline const std::vector<std::string> kMayChange = {"optimizer"};

struct CommandSweepFlags {
  std::vector<std::string> command, tries;
  std::string trainer, config, like;           // "": none
  std::vector<std::string> allowed;            // of kMayChange
  sweep::CommandSweepSettings settings;        // all but its variants
  std::optional<sweep::SweepSettings> native;  // of memtune's own trials, which choose variants; nothing: all are run
  bool plan_asked = false;                     // a model was named
  AnswerFlags answer;
};

// The exit code. Throws UsageError, IoError.
int sweep_command(CommandSweepFlags flags);

}  // namespace memtune::cli
