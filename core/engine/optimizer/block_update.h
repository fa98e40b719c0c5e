// One AdamW step for one parameter: betas 0.9, 0.999, eps 1e-8, decay 0.01. All tensors are flat and on one device.
// Computes in float32 and stores in the dtype of `values`.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/model/quantized/blockwise.h"

namespace memtune::optimizer {

struct AdamWLearningRateAndStep {
  double learning_rate = 0;
  double number = 1;  // step number, from 1
};

// The values that the moments' bytes represent: dynamic_map with and without signs, on the parameter's device.
struct QuantizedMomentCodebooks {
  at::Tensor with_sign, without_sign;
};

// Float32 moments. Temporary memory: three float32 values per element.
void update(at::Tensor values, const at::Tensor& gradient, at::Tensor first, at::Tensor second,
            const AdamWLearningRateAndStep& step);

// Moments in blocks of 8 bits. Uses a kernel on CUDA, without temporary memory; else operators on 2^24 elements at a
// time.
void update_in_blocks(const at::Tensor& values, const at::Tensor& gradient,
                      const quantized::BlockwiseEightBitCodesAndAbsmax& first,
                      const quantized::BlockwiseEightBitCodesAndAbsmax& second, const QuantizedMomentCodebooks& maps,
                      const AdamWLearningRateAndStep& step);

// The same with operators, on any device; for comparison.
void update_in_blocks_by_operators(const at::Tensor& values, const at::Tensor& gradient,
                                   const quantized::BlockwiseEightBitCodesAndAbsmax& first,
                                   const quantized::BlockwiseEightBitCodesAndAbsmax& second,
                                   const QuantizedMomentCodebooks& maps, const AdamWLearningRateAndStep& step);

}  // namespace memtune::optimizer
