// Emits the gated delta rule: a recurrent state of each head, which decays and learns with each token. By chunks of the
// sequence, as transformers computes it without the kernels of fla.
#pragma once

#include "core/model/frontend/transformers/decoder_op_emitter.h"

namespace memtune::frontend {

struct DeltaRuleInputs {
  Value query, key, value;  // [batch, length, heads, width]
  Value decay;              // [batch, length, heads]: logarithm of the factor of the state
  Value beta;               // the same sizes: how much a token changes the state
};
struct DeltaRuleHeadCountAndWidths {
  int64_t heads = 0, key_width = 0, value_width = 0;
};

// Returns [batch, length, heads, width of a value]. Any length: the number of chunks is counted in every step.
Value write_delta_rule(DecoderOpEmitter& parts, const DeltaRuleInputs& inputs,
                       const DeltaRuleHeadCountAndWidths& sizes);

}  // namespace memtune::frontend
