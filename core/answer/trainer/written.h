// Writes settings in the form of a trainer's config: into the user's own, or as a new text.
#pragma once

#include <string>
#include <vector>

#include "core/answer/trainer/config.h"
#include "core/answer/trainer/own_settings.h"

namespace memtune::trainer {

struct Written {
  std::string text;
  bool takes_comments = true;
};

// Throws UsageError like OwnSettings::with().
Written write_settings(const KnownTrainer& trainer, const OwnSettings& own, const Changes& changes,
                       const std::vector<std::string>& comments);

}  // namespace memtune::trainer
