// Writes a causal language model of transformers as a program that returns logits. Its inputs are input_ids and, as
// needed, position_ids (packed rows), cu_seq_lens_q (flash-varlen) and attention_mask (padding).
#pragma once

#include "core/model/frontend/transformers/decoder_op_emitter.h"
#include "core/model/frontend/transformers/weights.h"
#include "core/model/program/program.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::frontend {

// Throws UsageError if a weight is missing.
void write_decoder(program::Program& program, const model::TransformersConfig& config,
                   TransformersWeightProvider& weights, at::TensorOptions options,
                   const DecoderLoweringOptions& setting);

}  // namespace memtune::frontend
