// A causal language model of transformers as a program: logits for input_ids (and, where rows are packed,
// position_ids).
#pragma once

#include "core/config/transformers_config.h"
#include "core/frontend/transformers/parts.h"
#include "core/frontend/transformers/weights.h"
#include "core/program/program.h"

namespace memtune::frontend {

// UsageError where a weight is missing.
void write_decoder(program::Program& program, const config::TransformersConfig& config, TransformersWeights& weights,
                   at::TensorOptions options, const DecoderSetting& setting);

}  // namespace memtune::frontend
