// Numbers in 8 bits, as bitsandbytes' quantize_blockwise holds them: of each block of 256 the largest magnitude, of
// each number the nearest of 256 parts of it, which are closer together near zero.
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::quantized {

struct Blockwise {
  at::Tensor bytes;    // uint8, one a number
  at::Tensor largest;  // float32, one a block
};

// Of a flat float32 tensor, on its device.
Blockwise pack_blockwise(const at::Tensor& numbers);

// float32.
at::Tensor unpack_blockwise(const Blockwise& packed);

}  // namespace memtune::quantized
