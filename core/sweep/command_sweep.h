// A sweep of variants of somebody else's training command: memtune sweep -- COMMAND.
#pragma once

#include <vector>

#include "core/sweep/command_order.h"
#include "core/sweep/command_variants.h"
#include "core/sweep/sweep.h"

namespace memtune::sweep {

struct CommandSweepSettings : LoopSettings {
  CommandSweep sweep;
  std::vector<NativeFigures> native;  // that variants are put in order by
};

// Throws UsageError when there is no such program, IoError for the run directory. A variant that fails is a row. This
// process must have no other threads.
SweepResult sweep_commands(const CommandSweepSettings& settings, SweepListener& listener);

}  // namespace memtune::sweep
