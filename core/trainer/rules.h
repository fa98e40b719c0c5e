// What profiles/trainers say of a config: whether conditions hold in it, and what follows.
#pragma once

#include <string>

#include "core/trainer/own_settings.h"

namespace memtune::trainer {

// All of them, of the user's settings with `changes` made. `name` is that of a variant.
bool hold(const Conditions& conditions, const OwnSettings& own, const Changes& changes = {},
          const std::string& name = "");

}  // namespace memtune::trainer
