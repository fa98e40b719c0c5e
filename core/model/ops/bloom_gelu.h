// GELU of Bloom's modeling code: an approximation by tanh that saves only its input, with a gradient written out.
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::ops {

// Source: GeLUFunction in transformers' modeling_bloom.py, 5.17. Differentiable once.
at::Tensor bloom_gelu(const at::Tensor& x);

}  // namespace memtune::ops
