// The 256 values from -1 (unsigned: 0) to 1 that bitsandbytes' 8-bit codes represent. They are denser near 0. Source:
// bitsandbytes.functional.create_dynamic_map, 0.50.
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::quantized {

// Returns float32 [256], ascending.
at::Tensor dynamic_map(bool with_sign, c10::Device device);

}  // namespace memtune::quantized
