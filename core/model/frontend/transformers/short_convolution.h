// Emits what some layers have instead of attention: a gated causal convolution over a few tokens.
#pragma once

#include <string>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

// `x`: [batch, length, width]; `layer`: path of the layer's module.
Value write_short_convolution(DecoderOpEmitter& parts, Value x, const std::string& layer);

}  // namespace memtune::frontend
