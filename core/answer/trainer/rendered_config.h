// Writes settings in the form of a trainer's config: into the user's own, or as a new text.
#pragma once

#include <string>
#include <vector>

#include "core/answer/trainer/editable_user_trainer_settings.h"
#include "core/answer/trainer/trainers.h"

namespace memtune::trainer {

struct RenderedConfig {
  std::string text;
  bool takes_comments = true;
};

// Throws UsageError like EditableUserTrainerSettings::with().
RenderedConfig render_config(const TrainerProfileAndPackageVersions& trainer, const EditableUserTrainerSettings& own,
                             const Changes& changes, const std::vector<std::string>& comments);

}  // namespace memtune::trainer
