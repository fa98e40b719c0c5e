// "memtune sweep --trainer NAME --config FILE": what the config says of training, as flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace memtune::cli {

struct TrainerConfig {
  std::vector<std::string> notes;  // where each flag comes from, and what is measured otherwise than it trains
  std::string strategy;            // that is nearest to what the config has now; "": none is known
};

// Sets the flags of `command` that the person did not give. `words` of a training command win over the config, which
// may be "" beside them. UsageError.
TrainerConfig take_trainer_config(CLI::App& command, const std::string& trainer, const std::string& config,
                                  const std::vector<std::string>& words = {});

}  // namespace memtune::cli
