// Eight bits an element in blocks of 256 that share a scale, by a table of 256 values between -1 and 1 that lie closer
// together near 0: how bitsandbytes keeps optimizer states ("8-Bit Optimizers via Block-wise Quantization",
// arXiv:2110.02861; its values and rounding as in release 0.50). Nothing here waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::optimizer {

constexpr int64_t kQuantizedBlock = 256;  // elements

struct BlockQuantized {
  at::Tensor codes;   // uint8, one dimension
  at::Tensor absmax;  // float32, of each block
};

// Zeros, to be filled in.
BlockQuantized make_block_quantized(int64_t elements, c10::Device device);

// Elements [begin, begin + count) as float32; both at a block's edge or the end. `map`: quantized::dynamic_map.
at::Tensor dequantize(const BlockQuantized& from, int64_t begin, int64_t count, const at::Tensor& map);
void quantize(const at::Tensor& values, const BlockQuantized& to, int64_t begin, const at::Tensor& map);

}  // namespace memtune::optimizer
