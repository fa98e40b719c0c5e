// What a process that trains with saves needs to know, as one JSON file: written by memtune run, and by a sweep that
// measures saves; read by memtune-trial.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/config/trial_request.h"

namespace memtune::config {

struct RunRequest {
  TrialRequest trial;           // model, inputs, settings and plan; training.steps is the last step's number
  std::string folder;           // of the run, in which states/ is
  int64_t save_every = 0;       // steps; 0: no saves
  std::string save = "sync";    // how, of kSaveModes
  int64_t keep_last = 0;        // states; 0: all
  bool resume = false;          // from the newest state, where there is one
  std::optional<int64_t> from;  // from the state of this step
  int64_t saves = 4;            // that are measured where that is asked for, the first among them
};

// What decides the course of a training beside its model, by the flags that set it: whoever goes on with one has the
// same. Not where data and model lie: they may have been moved.
std::map<std::string, std::string> course_of(const TrialRequest& request);

void to_json(nlohmann::json& json, const RunRequest& request);
void from_json(const nlohmann::json& json, RunRequest& request);

}  // namespace memtune::config
