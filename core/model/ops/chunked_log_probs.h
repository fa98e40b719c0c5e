// Log probabilities of chosen tokens under a linear layer over a vocabulary, computed in tiles of tokens and
// vocabulary, as TRL's preference trainers do. The full logits are never allocated; backward recomputes each tile.
// Gradients are accumulated in float32. Differentiable once. Source: ChunkedLogProbFunction of TRL 1.16.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace memtune::ops {

// What a model does to its logits: z * scale, then softcap * tanh(z / softcap) if there is one.
struct LogitScaleAndSoftcap {
  double scale = 1;
  std::optional<double> softcap;
};

// Returns float32 [rows, length] on the device of the inputs, 0 where the label is kIgnoredLabel. Shapes: hidden [rows,
// length, width], weight [vocabulary, width], bias [vocabulary], labels int64 [rows, length]. On CUDA the tiles leave
// out ignored labels; elsewhere they hold all. Under autocast, the layer computes in the autocast dtype.
at::Tensor chunked_log_probs(const at::Tensor& hidden, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                             const at::Tensor& labels, const LogitScaleAndSoftcap& scaling = {});

}  // namespace memtune::ops
