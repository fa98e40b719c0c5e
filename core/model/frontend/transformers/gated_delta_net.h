// Emits what the layers of linear attention have instead of attention: a short convolution, then the gated delta rule.
#pragma once

#include <string>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

// `x`: [batch, length, width]; `layer`: path of the layer's module.
Value write_gated_delta_net(DecoderOpEmitter& parts, Value x, const std::string& layer);

}  // namespace memtune::frontend
