// How a setting is written for a command.
#pragma once

#include <string>

namespace memtune::result {

// "checkpoint", "gradient_checkpointing: true".
struct SettingInTrainerSyntax {
  std::string setting, text;  // text "": a batch that cannot be made smaller
};

}  // namespace memtune::result
