// Reads the gated delta nets of a hybrid model from a config.json of transformers.
#pragma once

#include "core/model/transformers/config_field_reader.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::model {

// Throws UsageError like parse_transformers_config().
DeltaNetConfig read_delta_net(ConfigFieldReader& fields, int64_t layers);

}  // namespace memtune::model
