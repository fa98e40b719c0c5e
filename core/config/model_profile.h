// A model of profiles/models, which needs no file: a config.json of transformers, and the batch it is tried with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/config/transformers_config.h"
#include "core/config/trial_request.h"

namespace memtune::config {

struct ModelProfile {
  std::string description;
  int64_t batch = 0, sequence = 0;
  TransformersConfig model;
};

// UsageError that starts with `name` and names field, value and rule; also for text that is no JSON.
ModelProfile parse_model_profile(const std::string& name, std::string_view json);

// input_ids, a batch of it.
InputSpec tokens_of(const ModelProfile& profile);

}  // namespace memtune::config
