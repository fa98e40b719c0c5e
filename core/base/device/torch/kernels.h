// The CUDA module's kernels (core/base/device/cuda_kernels.h) for tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/base/device/cuda_kernels.h"

namespace memtune::device {

// Null if the device is none of CUDA's, or if the module was built without them.
const CudaKernelTable* kernels_for(c10::Device device);

// Null if the kernels do not support this device or dtype, or if the module was built without them.
const CudaKernelTable* kernels_for(c10::Device device, at::ScalarType type);

// `type` must be a dtype that the kernels support.
KernelDtype kernel_dtype(at::ScalarType type);

}  // namespace memtune::device
