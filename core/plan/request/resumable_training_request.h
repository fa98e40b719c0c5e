// Request for a training process that saves its state, as a JSON file. `memtune run` writes it, and so does a
// sweep that measures saves; memtune-trial reads it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/plan/request/trial_request.h"

namespace memtune::plan {

struct ResumableTrainingRequest {
  TrialRequest trial;           // model, inputs, settings, plan; training.steps is the number of the last step
  std::string folder;           // of the run; holds states/
  int64_t save_every = 0;       // steps; 0: no saves
  std::string save = "sync";    // a word of kSaveModes
  int64_t keep_last = 0;        // states that are kept; 0: all
  bool resume = false;          // from the newest state, if there is one
  std::optional<int64_t> from;  // resume from the state of this step
  int64_t saves = 4;            // measured by `memtune-trial save`, the first included
};

// Settings that determine the training's results besides the model, by flag. A resumed run must have the same ones.
// Paths of data and model are not included, because files may be moved.
std::map<std::string, std::string> resume_settings(const ModelAndInputSource& model, const TrainingSettings& training);

void to_json(nlohmann::json& json, const ResumableTrainingRequest& request);
void from_json(const nlohmann::json& json, ResumableTrainingRequest& request);

}  // namespace memtune::plan
