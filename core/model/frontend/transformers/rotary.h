// Rotary embedding as in transformers: frequencies are computed once, cosines and sines in every step.
#pragma once

#include <utility>

#include "core/model/frontend/transformers/decoder_builder.h"
#include "core/model/transformers/transformers_config.h"

namespace memtune::frontend {

// Float32 [width / 2], where width is the rotated part of a head.
at::Tensor rotary_frequencies(const model::RotaryConfig& rotary);

// Emits the positions of a sequence, [1, length].
Value write_positions(DecoderBuilder& parts);

// Cosine and sine of each position, [1, length, width]. Float32 for families that rotate in float32, else the model's
// dtype. Computed without autograd and autocast. For RotaryLayout::complex both are the complex table.
std::pair<Value, Value> write_rotary(DecoderBuilder& parts, const model::RotaryConfig& rotary, Value positions);

// Rotates the rotary part of queries and keys, [batch, heads, length, width of a head]. Cosine and sine are [1, 1,
// length, width].
std::pair<Value, Value> apply_rotary(DecoderBuilder& parts, Value queries, Value keys, std::pair<Value, Value> turn);

// The same for RotaryLayout::complex. Queries and keys are [batch, length, heads, width of a head]; `turn` is complex,
// [1, length, width / 2].
std::pair<Value, Value> apply_complex_rotary(DecoderBuilder& parts, Value queries, Value keys, Value turn);

}  // namespace memtune::frontend
