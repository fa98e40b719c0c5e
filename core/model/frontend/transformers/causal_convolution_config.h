// Emits a convolution along the sequence in which each channel sees itself alone, and no later token.
#pragma once

#include <string>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

struct CausalConvolutionConfig {
  std::string path;  // of the Conv1d module
  int64_t channels = 0, kernel = 0;
  bool bias = false, activated = false;
};

// `x`: [batch, channels, length], as the result.
Value write_causal_convolution(DecoderOpEmitter& parts, Value x, const CausalConvolutionConfig& convolution);

}  // namespace memtune::frontend
