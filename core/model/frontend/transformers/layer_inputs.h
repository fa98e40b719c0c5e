// Emits the per-layer embeddings of Gemma 3n and Gemma 4: each layer gets a vector of its own for each token.
#pragma once

#include <string>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

// The inputs of all layers, [batch, length, layers, width]. `x`: embeddings of the tokens; `embedded`: the tokens by
// the second table.
Value write_layer_inputs(DecoderOpEmitter& parts, Value x, Value embedded);

// What the input of one layer adds to its output. `x`: the output of the layer; `layer`: path of its module.
Value write_layer_input(DecoderOpEmitter& parts, Value x, Value input, const std::string& layer);

}  // namespace memtune::frontend
