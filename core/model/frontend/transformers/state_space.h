// Emits the mixer of a Mamba-2 layer: a short convolution, then the scan of a selective state space. By chunks of the
// sequence, as transformers computes it without the kernels of mamba-ssm and causal_conv1d.
#pragma once

#include <string>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

// `x`: [batch, length, width]; `path`: of the mixer's module.
Value write_state_space_mixer(DecoderOpEmitter& parts, Value x, const std::string& path);

}  // namespace memtune::frontend
