// Reads the experts of a mixture-of-experts model from a config.json of transformers.
#pragma once

#include "core/model/transformers/config_field_reader.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::model {

// Throws UsageError like parse_transformers_config().
MoeConfig read_experts(ConfigFieldReader& fields, int64_t layers);

}  // namespace memtune::model
