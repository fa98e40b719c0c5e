// A sweep of variants of somebody else's training command: memtune sweep -- COMMAND.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/sweep/command_order.h"
#include "core/sweep/command_variants.h"
#include "core/sweep/sweep.h"

namespace memtune::sweep {

// Which variants run next, by their names; none: no more. `tried` are all so far; variants may be added to the sweep,
// and what is told of it. Nothing: all are run, in the order that CommandOrder gives them.
using ChooseVariants =
    std::function<std::optional<std::vector<std::string>>(std::span<const TrialState> tried, CommandSweep& sweep)>;

struct CommandSweepSettings : LoopSettings {
  CommandSweep sweep;
  std::vector<NativeFigures> native;  // that variants are put in order by
  ChooseVariants choose;              // empty: all are run
};

// Throws UsageError when there is no such program, IoError for the run directory. A variant that fails is a row. This
// process must have no other threads.
SweepResult sweep_commands(const CommandSweepSettings& settings, SweepListener& listener);

}  // namespace memtune::sweep
