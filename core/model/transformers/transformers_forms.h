// Forms of one family that its config.json chooses.
#pragma once

#include "core/model/transformers/config_field_reader.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::model {

// Sets the heads of keys and, in the config's family, norms and projections of this form. Needs the number of heads.
void read_falcon_form(ConfigFieldReader& fields, TransformersConfig& config);

// The part of a head that a table of sines and cosines rotates.
int64_t read_table_width(ConfigFieldReader& fields, int64_t head_width);

// The window of each layer by attention_types; 0: all keys before the query.
std::vector<int64_t> read_local_layers(ConfigFieldReader& fields, int64_t layers);

// Scale, clipping and dropout of MPT, which stand in "attn_config".
void read_attn_config(ConfigFieldReader& fields, TransformersConfig& config);

}  // namespace memtune::model
