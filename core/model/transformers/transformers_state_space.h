// Reads the state space of Mamba-2 from a config.json of transformers.
#pragma once

#include "core/model/transformers/config_field_reader.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::model {

// The config must have its sizes and heads. Throws UsageError like parse_transformers_config().
StateSpaceConfig read_state_space(ConfigFieldReader& fields, const TransformersConfig& config);

// Older files have Infinity as a word, which is no JSON. Writes it as newer files do: {"__float__": "Infinity"}.
std::string with_infinity_as_object(std::string_view text);

}  // namespace memtune::model
