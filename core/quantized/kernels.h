// The CUDA module's kernels (core/device/cuda_kernels.h), as tensors see them.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/device/cuda_kernels.h"

namespace memtune::quantized {

// Null where they are not for numbers of that type on that device, or the module has none.
const device::CudaKernels* kernels_for(c10::Device device, at::ScalarType type);

// Of a type that they are for.
device::Number number_of(at::ScalarType type);

}  // namespace memtune::quantized
