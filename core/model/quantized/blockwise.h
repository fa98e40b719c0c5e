// 8-bit block-wise quantization, as in bitsandbytes' quantize_blockwise. Stores the absmax of each block of 256
// elements. Each element becomes the nearest of 256 fractions of it, which are denser near zero. Source: "8-Bit
// Optimizers via Block-wise Quantization", arXiv:2110.02861. All tensors are flat. Only pack_blockwise(numbers)
// synchronizes with the device.
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::quantized {

struct BlockwiseEightBitCodesAndAbsmax {
  at::Tensor bytes;    // uint8, one per element
  at::Tensor largest;  // float32 absmax, one per block
};

// Packs a float32 tensor with the signed map; the result is on its device. Rounds like bitsandbytes' CPU code.
BlockwiseEightBitCodesAndAbsmax pack_blockwise(const at::Tensor& numbers);
// Returns float32.
at::Tensor unpack_blockwise(const BlockwiseEightBitCodesAndAbsmax& packed);

// The signed map on `device`; cached.
const at::Tensor& signed_map_on(c10::Device device);

// For tensors that are updated in pieces. make_blockwise() returns `count` zeros. A piece starts at element `begin`, a
// block boundary, and ends at another or at the end. `map`: dynamic_map on that device. Rounds to nearest, like
// bitsandbytes' CUDA kernels.
BlockwiseEightBitCodesAndAbsmax make_blockwise(int64_t count, c10::Device device);
void pack_blockwise(const at::Tensor& numbers, const BlockwiseEightBitCodesAndAbsmax& to, int64_t begin,
                    const at::Tensor& map);
at::Tensor unpack_blockwise(const BlockwiseEightBitCodesAndAbsmax& packed, int64_t begin, int64_t count,
                            const at::Tensor& map);

}  // namespace memtune::quantized
