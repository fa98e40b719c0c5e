// A sweep over variants of the user's training command: memtune sweep -- COMMAND.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/answer/run/command_variants.h"
#include "core/sweep/commands/command_variant_orderer.h"
#include "core/sweep/loop/sweep.h"

namespace memtune::sweep {

// Chooses the variants that run next, by name; an empty list ends the sweep. `tried`: all trials so far. The function
// may add variants and notes to the sweep. If it returns none, all variants run in the order of CommandVariantOrderer.
using ChooseVariants = std::function<std::optional<std::vector<std::string>>(
    std::span<const SweepTrialAndMeasurement> tried, CommandSweepSettingsAndVariants& sweep)>;

struct CommandSweepSettings : CommonSweepSettings {
  CommandSweepSettingsAndVariants sweep;
  std::vector<EngineStrategyStepTimeAndPeak> native;  // to order the variants by
  ChooseVariants choose;                              // empty: all variants run
  bool show = false;                                  // the listener gets what the commands print
  std::filesystem::path records;                      // of attach::CommandSettings, for the only variant; "": none
};

// Throws UsageError if a program does not exist, IoError for the run directory. A variant that fails is a row of the
// report. This process must have no other threads.
SweepRecordAndReport sweep_commands(const CommandSweepSettings& settings, SweepListener& listener);

}  // namespace memtune::sweep
