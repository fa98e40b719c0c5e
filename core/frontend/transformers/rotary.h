// The rotary embedding as transformers computes it: the frequencies once, cosines and sines in every step.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <utility>

#include "core/config/transformers_config.h"
#include "core/frontend/emitter.h"

namespace memtune::frontend {

// In float32: one for every second number of the part of a head that turns.
at::Tensor rotary_frequencies(const config::Rotary& rotary);

// Of the positions 0 to `length`: cosine and sine [1, length, width], in float32 for families that turn in it, else of
// `dtype`. Outside autograd and autocast.
std::pair<Value, Value> write_rotary(Emitter& emit, const config::TransformersConfig& config, Value length,
                                     at::ScalarType dtype, c10::Device device);

// A head's part that turns, [batch, heads, length, width of a head], with cosine and sine [1, 1, length, width].
Value write_turned(Emitter& emit, const config::TransformersConfig& config, Value x, std::pair<Value, Value> turn,
                   at::ScalarType dtype);

}  // namespace memtune::frontend
