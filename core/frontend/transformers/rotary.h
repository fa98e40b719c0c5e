// The rotary embedding as transformers computes it: the frequencies once, cosines and sines in every step.
#pragma once

#include <utility>

#include "core/config/transformers_config.h"
#include "core/frontend/transformers/parts.h"

namespace memtune::frontend {

// In float32: one for every second number of the part of a head that turns.
at::Tensor rotary_frequencies(const config::Rotary& rotary);

// The positions of a sequence, [1, length].
Value write_positions(Parts& parts);

// Cosine and sine of each position [1, length, width], in float32 for families that turn in it, else of the model's
// dtype. Outside autograd and autocast.
std::pair<Value, Value> write_rotary(Parts& parts, const config::Rotary& rotary, Value positions);

// Of queries and keys the part that turns, [batch, heads, length, width of a head], with cosine and sine
// [1, 1, length, width].
std::pair<Value, Value> write_turned(Parts& parts, Value queries, Value keys, std::pair<Value, Value> turn);

}  // namespace memtune::frontend
