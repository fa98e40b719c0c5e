// A built-in model of profiles/models: a config.json of transformers, with its default batch size and sequence length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model/transformers/transformers_config.h"
#include "core/plan/request/trial_request.h"

namespace memtune::model {

struct BuiltinModelConfigAndInputShape {
  std::string description;
  int64_t batch = 0, sequence = 0;
  TransformersConfig model;
};

// Throws UsageError that starts with `name` and names field, value and rule, also if the text is no JSON.
BuiltinModelConfigAndInputShape parse_model_profile(const std::string& name, std::string_view json);

// The model's only input, input_ids [batch, sequence].
plan::InputSpec tokens_of(const BuiltinModelConfigAndInputShape& profile);

}  // namespace memtune::model
