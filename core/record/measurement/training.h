// Results of a training run. Plain data; to_json writes the names that scripts read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace memtune::result {

struct SingleStateSaveRecord {
  int64_t step = 0;
  double blocked_ms = 0;  // time training was blocked
  double durable_ms = 0;  // from its start until durable
  int64_t bytes = 0;
  std::string error;  // why it failed; "": it worked
};

struct ResumableTrainingResult {
  std::string device;
  std::string torch;                         // version of LibTorch, "2.11.0"
  int64_t first_step = 0;                    // first step of this process; earlier ones are from a saved state
  std::vector<double> loss;                  // of all steps, also those before the saved state; null in JSON is NaN
  std::vector<SingleStateSaveRecord> saves;  // by this process
  std::vector<double> times_ms;              // of this process's steps, without the time of saves between them
  double step_ms = 0;                        // median of times_ms; 0: no steps
  int64_t save_host_bytes = 0;               // host memory held by saves
  double save_prepare_ms = 0;                // time training was blocked once to prepare saves
  double samples_per_s = 0, tokens_per_s = 0;
  bool deterministic = true;  // all kernels are deterministic, so a resumed run has the same bits
  bool stopped = false;       // by a signal, before the last step
};

void to_json(nlohmann::json& json, const SingleStateSaveRecord& save);
void from_json(const nlohmann::json& json, SingleStateSaveRecord& save);
void to_json(nlohmann::json& json, const ResumableTrainingResult& training);
void from_json(const nlohmann::json& json, ResumableTrainingResult& training);

}  // namespace memtune::result
