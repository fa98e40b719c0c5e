// Rotary embedding as in transformers: frequencies are computed once, cosines and sines in every step.
#pragma once

#include <utility>

#include "core/model/frontend/transformers/decoder_op_emitter.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::frontend {

// Float32 [width / 2], where width is the rotated part of a head.
at::Tensor rotary_frequencies(const model::RotaryConfig& rotary);

// Emits the positions of a sequence, [1, length].
Value write_positions(DecoderOpEmitter& parts);

// Cosine and sine of each position, [1, length, width]. Float32 for families that rotate in float32, else the model's
// dtype. Computed without autograd and autocast. For RotaryEmbeddingLayoutAndPrecision::complex both are the complex
// table.
std::pair<Value, Value> write_rotary(DecoderOpEmitter& parts, const model::RotaryConfig& rotary, Value positions);

// Rotates the rotary part of queries and keys, [batch, heads, length, width of a head]. Cosine and sine are [1, 1,
// length, width].
std::pair<Value, Value> apply_rotary(DecoderOpEmitter& parts, Value queries, Value keys, std::pair<Value, Value> turn);

// Rotates x, whose sizes the cosine and sine broadcast to.
Value apply_rotary(DecoderOpEmitter& parts, Value x, std::pair<Value, Value> turn);

// Rotates x by a complex table that broadcasts to it. `pairs`: sizes of x with its last one as [width / 2, 2].
Value rotate_as_complex(DecoderOpEmitter& parts, Value x, Value table, Value pairs);

// [first · cosine - second · sine, second · cosine + first · sine], joined along the last dimension.
Value rotate_pairs(DecoderOpEmitter& parts, Value first, Value second, Value cosine, Value sine);

}  // namespace memtune::frontend
