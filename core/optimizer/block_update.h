// One step of AdamW for the numbers of one parameter, flat tensors of one device: betas 0.9, 0.999, eps 1e-8, decay
// 0.01. Computes in float32, and writes in the values' dtype.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/quantized/blockwise.h"

namespace memtune::optimizer {

struct AdamWStep {
  double learning_rate = 0;
  double number = 1;  // of the step, from 1
};

// What bytes of the two moments stand for: dynamic_map with and without signs, on the parameter's device.
struct BlockMaps {
  at::Tensor with_sign, without_sign;
};

// Moments in float32. Needs three times the numbers in float32 besides.
void update(at::Tensor values, const at::Tensor& gradient, at::Tensor first, at::Tensor second, const AdamWStep& step);

// Moments in blocks of 8 bits: by a kernel on CUDA, which needs nothing besides, else by operators, some 2^24 numbers
// at a time.
void update_in_blocks(const at::Tensor& values, const at::Tensor& gradient, const quantized::Blockwise& first,
                      const quantized::Blockwise& second, const BlockMaps& maps, const AdamWStep& step);

// The same by operators on any device: for comparison.
void update_in_blocks_by_operators(const at::Tensor& values, const at::Tensor& gradient,
                                   const quantized::Blockwise& first, const quantized::Blockwise& second,
                                   const BlockMaps& maps, const AdamWStep& step);

}  // namespace memtune::optimizer
