// Log probabilities of chosen tokens under a linear layer over a vocabulary, computed in tiles of tokens and
// vocabulary, as TRL's preference trainers do. The full logits are never allocated; backward recomputes each tile.
// Gradients are accumulated in float32. Differentiable once. Source: ChunkedLogProbFunction of TRL 1.16.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace memtune::ops {

// Returns float32 [tokens] on the device of the inputs. Shapes: hidden [tokens, width], weight [vocabulary, width],
// bias [vocabulary], targets int64 [tokens]. Under autocast, the layer computes in the autocast dtype.
at::Tensor chunked_log_probs(const at::Tensor& hidden, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                             const at::Tensor& targets);

}  // namespace memtune::ops
