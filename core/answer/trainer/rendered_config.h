// Writes settings in the form of a trainer's config: into the user's own, or as a new text.
#pragma once

#include <string>
#include <vector>

#include "core/answer/trainer/trainers.h"
#include "core/answer/trainer/user_trainer_settings.h"

namespace memtune::trainer {

struct RenderedConfig {
  std::string text;
  bool takes_comments = true;
};

// Throws UsageError like UserTrainerSettings::with().
RenderedConfig render_config(const ResolvedTrainer& trainer, const UserTrainerSettings& own, const Changes& changes,
                             const std::vector<std::string>& comments);

}  // namespace memtune::trainer
