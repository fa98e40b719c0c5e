// What a run of training came to. Plain data; to_json writes the names that scripts read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace memtune::result {

struct SavedStep {
  int64_t step = 0;
  double blocked_ms = 0;  // that training waited
  double durable_ms = 0;  // from its beginning until it was on the disk
  int64_t bytes = 0;
  std::string error;  // why it failed; "": it did not
};

struct TrainingResult {
  std::string device;
  int64_t first_step = 0;        // that this process ran from: steps before are from a saved state
  std::vector<double> loss;      // of every step since the first of all; NaN where JSON has null
  std::vector<SavedStep> saves;  // of this process
  std::vector<double> times_ms;  // of this process's steps, without the time that saves took between them
  double step_ms = 0;            // their median; 0: there was none
  int64_t save_host_bytes = 0;   // that saves held
  double save_prepare_ms = 0;    // that training waited for them, once
  double samples_per_s = 0, tokens_per_s = 0;
  bool deterministic = true;  // every op has such a kernel: a run that goes on has the bits of one that was not stopped
  bool stopped = false;       // before the last step, by a signal
};

void to_json(nlohmann::json& json, const SavedStep& save);
void from_json(const nlohmann::json& json, SavedStep& save);
void to_json(nlohmann::json& json, const TrainingResult& training);
void from_json(const nlohmann::json& json, TrainingResult& training);

}  // namespace memtune::result
