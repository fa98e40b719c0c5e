// How a command's own trainer or flags write the settings that help against out of memory or shorten a step.
#pragma once

#include <string>
#include <vector>

#include "core/record/measurement/setting_in_trainer_syntax.h"

namespace memtune::trainer {

struct StartedTrainerCommandAndConfig {
  std::vector<std::string> command;
  std::string trainer;                   // "": a script of its own
  std::string config_text, config_name;  // "": its settings are arguments
};

// A setting that cannot be made smaller has the text "". A config that cannot be read has no words.
std::vector<result::SettingInTrainerSyntax> remedy_words(const StartedTrainerCommandAndConfig& run);

}  // namespace memtune::trainer
