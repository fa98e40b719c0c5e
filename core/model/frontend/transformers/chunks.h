// Sequences in chunks of equal length, padded at the end.
#pragma once

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

// How many tokens are missing to the next multiple of `chunk`, computed in every step.
Value write_missing_tokens(DecoderOpEmitter& parts, int64_t chunk);

// Pads with zeros. `sizes`: before and after, of the last dimension and then of those before it.
Value write_padding(DecoderOpEmitter& parts, Value x, const Values& sizes);

}  // namespace memtune::frontend
