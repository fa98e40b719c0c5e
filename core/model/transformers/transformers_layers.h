// Reads what differs between the layers of Gemma 3n and Gemma 4 from a config.json of transformers.
#pragma once

#include <vector>

#include "core/model/transformers/config_field_reader.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::model {

// `windowed`: by layer. The config must have its sizes and heads. Throws UsageError like parse_transformers_config().
std::vector<PerLayerConfigOverrides> read_layer_configs(ConfigFieldReader& fields, const TransformersConfig& config,
                                                        const std::vector<bool>& windowed);

AltupConfig read_altup(ConfigFieldReader& fields);

}  // namespace memtune::model
