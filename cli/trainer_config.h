// "memtune sweep --trainer NAME --config FILE", and fit: sets training flags from a trainer's config.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace memtune::cli {

struct TrainerConfig {
  std::vector<std::string> notes;  // source of each flag, and differences between the sweep and the trainer
  std::string name;                // of the config's file; "": the command itself
  std::string strategy;            // most similar to the config; "": none known
};

// Sets the flags of `command` that the user did not give; a note names those that it does not have. `words` of a
// training command take precedence over the config, which may be "" then. Throws UsageError, also for a config of other
// training than memtune's own; `text_only` accepts one that trains images too.
TrainerConfig take_trainer_config(CLI::App& command, const std::string& trainer, const std::string& config,
                                  bool text_only, const std::vector<std::string>& words = {});

}  // namespace memtune::cli
