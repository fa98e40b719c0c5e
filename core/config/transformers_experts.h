// Reads the experts of a mixture-of-experts model from a config.json of transformers.
#pragma once

#include "core/config/transformers_config.h"
#include "core/config/transformers_fields.h"

namespace memtune::config {

// Throws UsageError like parse_transformers_config().
Experts read_experts(TransformersFields& fields, int64_t layers);

}  // namespace memtune::config
