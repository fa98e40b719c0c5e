// `memtune export --check`: the strategy that a trainer's config amounts to, and its settings without effect.
#pragma once

#include <map>
#include <string>

namespace memtune::sweep {

struct TrainerMemorySettingsEffectRequest {
  std::string trainer, file;
  std::string run;  // folder of a sweep whose figures are printed, if it is one
  std::map<std::string, std::string> releases;
};

struct TrainerMemorySettingsEffectReport {
  std::string text;   // lines to print
  bool works = true;  // every memory setting has an effect
};

// Throws UsageError for an unreadable config.
TrainerMemorySettingsEffectReport check_trainer_config(const TrainerMemorySettingsEffectRequest& config);

}  // namespace memtune::sweep
