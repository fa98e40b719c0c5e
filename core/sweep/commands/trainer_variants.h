// The variants of a training command: the memory settings of its trainer, and the values of --try.
#pragma once

#include <string>
#include <vector>

#include "core/answer/run/command_variants.h"
#include "core/sweep/commands/command_variant_orderer.h"

namespace memtune::sweep {

struct CommandVariantGenerationOptions {
  std::vector<std::string> command;
  std::vector<std::string> tries;  // axes: "batch=4;8"
  std::string trainer, config;     // a name and a file; "": none
  // What may change the training: some of kMayChange (settings of the trainer), or names of axes.
  std::vector<std::string> allowed = {};
};

// Sets the trainer, the variants and the skipped settings of `sweep`, the user's own variant first. Throws UsageError.
void add_variants(const CommandVariantGenerationOptions& options, CommandSweepSettingsAndVariants& sweep);

// Figures that a sweep of a model in the folder `run` measured, at the recommended batch. Throws UsageError for the
// sweep of a command.
std::vector<EngineStrategyStepTimeAndPeak> engine_results(const std::string& run);

}  // namespace memtune::sweep
