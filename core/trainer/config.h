// What of a trainer is code, and not profiles/trainers: where a run's shape goes, and how the state of a training is
// saved.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/trainer/space_profile.h"

namespace memtune::trainer {

// Settings as they are written, and what the person must see to.
struct Config {
  Changes changes;
  std::vector<std::string> notes;
};

// How the state of a training is to be saved.
struct Saving {
  size_t mode = 0;  // of config::kSaveModes
  int64_t every_steps = 1;
  int64_t keep_last = 0;  // 0: all
};

struct Trainer {
  std::string_view name;
  std::string_view batch_key = "", accumulate_key = "";
  std::string_view sequence_key = "";   // "": it has none, and
  std::string_view sequence_note = "";  // says where else to set it
  size_t save_modes = 0;                // how many of config::kSaveModes it has, from the first on
  void (*save)(const Saving& saving, Config& to) = nullptr;
  std::string_view older_profile = "", older_before = "";  // what releases before that one are described by
};

std::span<const Trainer> all_trainers();
// UsageError for an unknown one, with the nearest.
const Trainer& find_trainer(const std::string& name);

// The profile of a trainer at these releases, and what is known of releases, theirs before its own. A release "" is
// that of the trainer itself.
struct KnownTrainer {
  SpaceProfile profile;
  std::map<std::string, std::string> releases;
  std::string package;  // of the trainer itself
};
KnownTrainer known_trainer(const std::string& name, const std::map<std::string, std::string>& releases);

}  // namespace memtune::trainer
