// NF4 weights. Stores the absmax of each block of 64 elements, and per element one of 16 fractions of it. A byte holds
// two elements, the first in its high bits. The absmax values are float32 or, with double quantization, one byte each.
// Bytes and values match bitsandbytes' Params4bit.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/model/quantized/blockwise.h"

namespace memtune::quantized {

struct Nf4Weight {
  at::Tensor bytes;               // uint8 [elements / 2, 1]
  at::Tensor largest;             // absmax, one per block: float32, or uint8 with double quantization
  at::Tensor largest_of_largest;  // with double quantization only, like `mean`
  at::Tensor mean;                // mean absmax of the blocks, a scalar
};

enum class Nf4AbsmaxScaleEncoding { plain, quantized };

// Packs a float32, float16 or bfloat16 weight on its device. Needs a few MiB of temporary memory there.
Nf4Weight pack_nf4(const at::Tensor& weight, Nf4AbsmaxScaleEncoding magnitudes);

// Returns float32, float16 or bfloat16. Uses a loop on a CPU and a kernel on CUDA. Other devices, and CUDA modules
// without kernels, use operators, which need a few MiB of temporary memory.
at::Tensor unpack_nf4(const Nf4Weight& packed, at::IntArrayRef shape, at::ScalarType type);

// The same with LibTorch's operators, on any device; for comparison.
Nf4Weight pack_nf4_by_operators(const at::Tensor& weight, Nf4AbsmaxScaleEncoding magnitudes);
at::Tensor unpack_nf4_by_operators(const Nf4Weight& packed, at::IntArrayRef shape, at::ScalarType type);

}  // namespace memtune::quantized
