// Numbers in 8 bits, as bitsandbytes' quantize_blockwise holds them: of each block of 256 the largest magnitude, of
// each number the nearest of 256 parts of it, which are closer together near zero ("8-Bit Optimizers via Block-wise
// Quantization", arXiv:2110.02861). Flat tensors; nothing waits for the device but the packing of the first form.
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::quantized {

struct Blockwise {
  at::Tensor bytes;    // uint8, one a number
  at::Tensor largest;  // float32, one a block
};

// Of a float32 tensor, on its device, by the map with signs; rounded as bitsandbytes' loop for CPUs rounds.
Blockwise pack_blockwise(const at::Tensor& numbers);
// float32.
at::Tensor unpack_blockwise(const Blockwise& packed);

// The map with signs, on that device, made once.
const at::Tensor& signed_map_on(c10::Device device);

// What changes piece by piece: `count` numbers of 0, and numbers from `begin` on, which is a block's edge, to another
// or the end. `map`: dynamic_map, on that device; rounded to the nearest, as bitsandbytes' CUDA kernels round.
Blockwise make_blockwise(int64_t count, c10::Device device);
void pack_blockwise(const at::Tensor& numbers, const Blockwise& to, int64_t begin, const at::Tensor& map);
at::Tensor unpack_blockwise(const Blockwise& packed, int64_t begin, int64_t count, const at::Tensor& map);

}  // namespace memtune::quantized
