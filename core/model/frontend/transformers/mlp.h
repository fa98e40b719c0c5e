// Emits what follows attention in a layer: an MLP, or a mixture of experts.
#pragma once

#include <string>

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

Value write_mlp(DecoderOpEmitter& parts, Value x, const std::string& path, int64_t width);

// A router, the experts that it chooses for each token, and the shared expert if the family has one. `layer`: path of
// the layer's module.
Value write_experts(DecoderOpEmitter& parts, Value x, const std::string& layer);

// The same beside the layer's MLP: `x` is the residual stream before it, `y` its output.
Value write_experts_beside_mlp(DecoderOpEmitter& parts, Value x, Value y, const std::string& layer);

struct ChosenExpertIndicesAndWeights {
  Value weights, experts;  // [tokens, experts per token]; RouterKind::sigmoid_of_best: weights [tokens, experts] alone
};
// `rows`: [tokens, width]; `block`: path of the module that holds the router.
ChosenExpertIndicesAndWeights write_router(DecoderOpEmitter& parts, Value rows, const std::string& block);

}  // namespace memtune::frontend
