// Emits what follows attention in a layer: an MLP, or a mixture of experts.
#pragma once

#include <string>

#include "core/model/frontend/transformers/decoder_builder.h"

namespace memtune::frontend {

Value write_mlp(DecoderBuilder& parts, Value x, const std::string& path, int64_t width);

// A router, the experts that it chooses for each token, and the shared expert if the family has one.
Value write_experts(DecoderBuilder& parts, Value x, const std::string& path);

}  // namespace memtune::frontend
