// Evaluates the conditions in profiles/trainers for a config.
#pragma once

#include <string>

#include "core/answer/trainer/editable_user_trainer_settings.h"

namespace memtune::trainer {

// Whether all conditions hold for the user's settings with `changes` applied. `name` is the variant's name.
bool conditions_hold(const Conditions& conditions, const EditableUserTrainerSettings& own, const Changes& changes = {},
                     const std::string& name = "");

}  // namespace memtune::trainer
