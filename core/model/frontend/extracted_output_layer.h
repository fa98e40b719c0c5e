// The linear layer that makes the logits, and the elementwise steps after it. A loss that computes the logits in chunks
// replaces them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/model/frontend/program_emitter.h"
#include "core/model/ops/linear_cross_entropy.h"
#include "core/model/program/program.h"

namespace memtune::frontend {

struct ExtractedOutputLayer {
  Value hidden, weight;
  std::optional<Value> bias;
  std::vector<ops::LogitElementwiseOperation> steps;
};

// Takes the output layer of the value `logits` out of the program. Nothing else may use the removed values. Throws
// UsageError with the reason if this is not possible; `flag` and `remedy` begin and end its message.
ExtractedOutputLayer extract_output_layer(program::Program& program, Value logits, const std::string& flag,
                                          const std::string& remedy);

}  // namespace memtune::frontend
