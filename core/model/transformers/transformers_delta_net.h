// Reads the gated delta nets of a hybrid model from a config.json of transformers.
#pragma once

#include "core/model/transformers/transformers_config.h"
#include "core/model/transformers/transformers_config_reader.h"

namespace memtune::model {

// Throws UsageError like parse_transformers_config().
DeltaNetConfig read_delta_net(TransformersConfigReader& fields, int64_t layers);

}  // namespace memtune::model
