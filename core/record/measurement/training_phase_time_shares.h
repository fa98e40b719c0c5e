// What takes the time of a training command's step. Plain data; the JSON of a Measurement has it as `time_shares`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/record/measurement/setting_in_trainer_syntax.h"

namespace memtune::result {

// From 0 to 1; their sum is 1. On CUDA of the device's time: waiting for data while it computes takes none.
struct TrainingPhaseTimeShares {
  double data = 0;     // waiting for a DataLoader
  double forward = 0;  // with the loss
  double backward = 0;
  double update = 0;      // of the optimizer
  double evaluation = 0;  // the model runs without gradients
  double generation = 0;
  double save = 0;
  double rest = 0;
  int64_t loader_workers = -1;                // -1: no DataLoader was seen
  bool evaluates = false;                     // a trained model ran in evaluation mode without gradients
  bool unfused = false;                       // an optimizer could have fused=True
  std::string trainer;                        // whose library the process had loaded, "axolotl"; "": of none
  std::vector<SettingInTrainerSyntax> words;  // of the command's own trainer
};

struct TimeShareNameAndMemberPointer {
  const char* name;
  double TrainingPhaseTimeShares::*share;
};

inline constexpr std::array<TimeShareNameAndMemberPointer, 8> kTimeKinds = {
    {{"data", &TrainingPhaseTimeShares::data},
     {"forward", &TrainingPhaseTimeShares::forward},
     {"backward", &TrainingPhaseTimeShares::backward},
     {"update", &TrainingPhaseTimeShares::update},
     {"evaluation", &TrainingPhaseTimeShares::evaluation},
     {"generation", &TrainingPhaseTimeShares::generation},
     {"save", &TrainingPhaseTimeShares::save},
     {"rest", &TrainingPhaseTimeShares::rest}}};

}  // namespace memtune::result
