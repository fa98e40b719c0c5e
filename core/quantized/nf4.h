// Weights in NF4: of each block of 64 the largest magnitude, of each number one of 16 parts of it, two of them a byte,
// the first in its high bits. Those magnitudes are float32 or, quantized in their turn, a byte each. Bytes and values
// are those of bitsandbytes' Params4bit.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/quantized/blockwise.h"

namespace memtune::quantized {

struct Nf4 {
  at::Tensor bytes;    // uint8 [numbers / 2, 1]
  at::Tensor largest;  // float32, one a block; with double quantization uint8, and then the next two are there
  at::Tensor largest_of_largest;
  at::Tensor mean;  // of the blocks' magnitudes, no dimensions
};

enum class Magnitudes { plain, quantized };

// Of float32, float16 or bfloat16, on its device; needs a few MiB besides there.
Nf4 pack_nf4(const at::Tensor& weight, Magnitudes magnitudes);

// Of float32, float16 or bfloat16, by a loop on a CPU, by a kernel on CUDA; by operators elsewhere, and on CUDA where
// the module has no kernels: those need a few MiB besides the result.
at::Tensor unpack_nf4(const Nf4& packed, at::IntArrayRef shape, at::ScalarType type);

// The same by LibTorch's operators on any device: for comparison.
Nf4 pack_nf4_by_operators(const at::Tensor& weight, Magnitudes magnitudes);
at::Tensor unpack_nf4_by_operators(const Nf4& packed, at::IntArrayRef shape, at::ScalarType type);

}  // namespace memtune::quantized
