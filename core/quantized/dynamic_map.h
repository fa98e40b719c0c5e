// The 256 values between -1 (unsigned: 0) and 1 that numbers of eight bits stand for in bitsandbytes, closer together
// near 0. Source: bitsandbytes.functional.create_dynamic_map, 0.50.
#pragma once

#include <ATen/core/Tensor.h>

namespace memtune::quantized {

// float32 [256], ascending.
at::Tensor dynamic_map(bool with_sign, c10::Device device);

}  // namespace memtune::quantized
