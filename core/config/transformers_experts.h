// The experts of a mixture, as a config.json of transformers describes them.
#pragma once

#include "core/config/transformers_config.h"
#include "core/config/transformers_fields.h"

namespace memtune::config {

// UsageError as parse_transformers_config().
Experts read_experts(TransformersFields& fields, int64_t layers);

}  // namespace memtune::config
