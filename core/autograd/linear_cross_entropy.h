// The mean cross entropy of a linear layer's outputs over a vocabulary, the outputs never whole: tokens go through the
// layer some at a time.
//
//   chunked  forward keeps its arguments alone; backward makes each chunk's outputs again, as TRL's chunked loss does
//   fused    forward makes the gradients too, in the arguments' sizes and dtypes; backward scales them, as Liger's does
//
// The weight's gradient is summed up in the weight's dtype, as theirs are. Differentiable once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace memtune::autograd {

// What is done to each output between the layer and the loss.
struct LogitStep {
  enum class Kind { multiply, divide, tanh, to_float } kind;
  double factor = 1;  // of multiply and divide
};

struct LinearCrossEntropy {
  int64_t chunks = 0;  // 0: fused, in chunks of Liger's size
  std::vector<LogitStep> steps;
};

// hidden [tokens, width], weight [vocabulary, width], bias [vocabulary], labels int64 [tokens] of which -100 does not
// count: a float32 number on their device. As torch.nn.functional.cross_entropy(logits.float(), labels),
// and NaN as that where no label counts. Under autocast the layer computes as a linear layer under autocast.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, const at::Tensor& labels,
                                const LinearCrossEntropy& how);

// Tokens at a time of a fused loss: a power of two, so that a chunk's outputs take about the memory of `hidden`.
// Source: liger_kernel/ops/fused_linear_cross_entropy.py, 0.8.
int64_t fused_chunk_rows(int64_t tokens, int64_t width, int64_t vocabulary);

}  // namespace memtune::autograd
