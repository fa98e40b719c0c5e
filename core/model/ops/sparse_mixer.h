// Weights of experts by SparseMixer-v2, whose gradient goes to the router's scores alone.
// https://arxiv.org/abs/2409.12136
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::ops {

// Returns the product of odds and factors. Shapes: [tokens, experts] of scores and all_odds, [tokens, 1] of the others.
// Differentiable once. Source: PhimoeMultiplier in transformers' modeling_phimoe.py, 5.17.
at::Tensor sparse_mixer(const at::Tensor& scores, const at::Tensor& odds, const at::Tensor& chosen,
                        const at::Tensor& all_odds, const at::Tensor& factors);

}  // namespace memtune::ops
