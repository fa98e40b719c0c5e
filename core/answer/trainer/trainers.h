// The part of each trainer that is code instead of data (profiles/trainers): keys of batch and sequence, and keys of
// saving the training state.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/answer/trainer/trainer_profile.h"

namespace memtune::trainer {

// Settings to write, and notes for the user.
struct ConfigChanges {
  Changes changes;
  std::vector<std::string> notes;
};

// Settings for saving the training state.
struct RecommendedStateSaveSchedule {
  size_t mode = 0;  // index into kSaveModes
  int64_t every_steps = 1;
  int64_t keep_last = 0;  // 0: all
};

struct TrainerBatchAndSaveKeys {
  std::string_view name;
  std::string_view batch_key = "", accumulate_key = "";
  std::string_view sequence_key = "";   // "": no such key, and
  std::string_view sequence_note = "";  // this note says where else to set it
  size_t save_modes = 0;                // supports the first `save_modes` of kSaveModes
  void (*save)(const RecommendedStateSaveSchedule& saving, ConfigChanges& to) = nullptr;
  std::string_view older_profile = "", older_before = "";  // profile for releases before `older_before`
};

// Throws UsageError for an unknown trainer, with the nearest name.
const TrainerBatchAndSaveKeys& find_trainer(const std::string& name);

// A trainer's profile and the releases of its packages. `releases` (package -> release) overrides the releases in the
// profile; the key "" is the trainer's own package.
struct TrainerProfileAndPackageVersions {
  TrainerProfile profile;
  std::map<std::string, std::string> releases;
  std::string package;  // the trainer's own package
};
TrainerProfileAndPackageVersions known_trainer(const std::string& name,
                                               const std::map<std::string, std::string>& releases);

}  // namespace memtune::trainer
