// Mean cross entropy of a linear layer's outputs over a vocabulary, computed in chunks of tokens. The full logits are
// never allocated.
//
//   chunked  forward saves only its arguments; backward recomputes each chunk's logits, as TRL's chunked loss does
//   fused    forward also computes the gradients, in the arguments' sizes and dtypes; backward scales them (Liger)
//
// The weight's gradient is accumulated in the weight's dtype, as in TRL and Liger. Differentiable once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace memtune::ops {

inline constexpr int64_t kIgnoredLabel = -100;  // default of cross_entropy_loss

// An operation on the logits between the layer and the loss.
struct LogitElementwiseOperation {
  enum class Kind { multiply, divide, tanh, to_float } kind;
  double factor = 1;  // for multiply and divide
};

struct LinearCrossEntropyOptions {
  int64_t chunks = 0;  // 0: fused, in chunks of Liger's size
  std::vector<LogitElementwiseOperation> steps;
};

// Returns a float32 scalar on the device of the inputs. Shapes: hidden [tokens, width], weight [vocabulary, width],
// bias [vocabulary], labels int64 [tokens]; kIgnoredLabel is ignored. Matches
// torch.nn.functional.cross_entropy(logits.float(), labels), and is NaN if all labels are ignored. Under autocast, the
// layer computes in the autocast dtype.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, const at::Tensor& labels,
                                const LinearCrossEntropyOptions& how);

// Number of tokens per chunk of a fused loss. A power of two, so that a chunk's logits take about as much memory as
// `hidden`.
// Source: liger_kernel/ops/fused_linear_cross_entropy.py, 0.8.
int64_t fused_chunk_rows(int64_t tokens, int64_t width, int64_t vocabulary);

}  // namespace memtune::ops
