// "memtune fit --trainer NAME": the fastest strategy that fits and that the trainer's own keys can express.
#pragma once

#include <string>
#include <vector>

#include "core/sweep/predict/fit.h"

namespace memtune::sweep {

struct FastestFittingStrategyConfigKeys {
  std::string trainer;   // with its release: "axolotl 0.19.0"
  std::string strategy;  // "": the trainer has keys for none that fits, or the config allows none
  std::string text;      // the keys, in the form of the trainer's config
  std::vector<std::string> notes;
};

// `config`: the user's, whose name is `name`; both are "" if there is none. `blocks` of the model. Throws UsageError
// for an unknown trainer, or a config that the trainer does not read.
FastestFittingStrategyConfigKeys config_keys_of_fit(const GpuStrategyFitsAndPlan& fit, const std::string& trainer,
                                                    const std::string& config, const std::string& name, int blocks);

}  // namespace memtune::sweep
