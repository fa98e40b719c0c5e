// Eager attention of older decoders, which compute scores in their own ways.
#pragma once

#include <string>

#include "core/model/frontend/transformers/attention.h"

namespace memtune::frontend {

// Queries, keys and values: [batch, heads, length, width], as is the result. `path`: of the attention's module.
Value write_older_attention(DecoderOpEmitter& parts, const std::array<Value, 3>& qkv, const std::string& path,
                            const AttentionMaskWindowAndBias& seen);

// For OlderDecoderPositionEncoding::rotary: projects and rotates by a table in the module. Heads come first in the
// results.
std::array<Value, 3> write_table_projections(DecoderOpEmitter& parts, Value x, const std::string& path,
                                             Value positions);

// Linear biases of scores: [heads, 1, rows of the table], or [batch * heads, 1, length] for a padding mask.
Value write_biases(DecoderOpEmitter& parts);
Value write_biases_by_mask(DecoderOpEmitter& parts, Value mask);

// Adds sines and cosines of the positions to the embedding.
Value write_sinusoids(DecoderOpEmitter& parts, const std::string& path, Value positions);

// The difference of two attentions, each [batch, length, heads, width], normed. Factors get the dtype of the queries.
// `path`: of the attention's module.
Value write_difference(DecoderOpEmitter& parts, const std::array<Value, 2>& attended, Value queries,
                       const std::string& path, int64_t layer);

}  // namespace memtune::frontend
