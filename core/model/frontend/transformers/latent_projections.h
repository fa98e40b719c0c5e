// Queries, keys and values of multi-head latent attention, as DeepSeek-V3 has it
// (https://arxiv.org/abs/2412.19437, 2.1.1).
#pragma once

#include <array>
#include <string>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

// `cosine` and `sine`: [1, 1, length, rotated width]; the complex table for RotaryEmbeddingLayoutAndPrecision::complex.
// Returns [batch, heads, length, width] each; values have a width of their own.
std::array<Value, 3> write_latent_projections(DecoderOpEmitter& parts, Value x, const std::string& path, Value cosine,
                                              Value sine);

}  // namespace memtune::frontend
