// memtune profile -- COMMAND: a training command that is not memtune's, measured from outside.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/console.h"
#include "core/attach/shim.h"

namespace memtune::cli {

struct CommandProfile {
  std::vector<std::string> command;
  attach::StepCounts steps;
  std::chrono::milliseconds limit{};
  std::string out, json;
  ConsoleFlags console;
};

// The exit code. Throws UsageError, IoError.
int profile_command(const CommandProfile& profile);

}  // namespace memtune::cli
