#include "core/base/device/torch/kernels.h"

#include <ATen/ATen.h>

namespace memtune::device {

const CudaKernelTable* kernels_for(c10::Device device) { return device.is_cuda() ? cuda_kernels() : nullptr; }

const CudaKernelTable* kernels_for(c10::Device device, at::ScalarType type) {
  const bool known = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  return known ? kernels_for(device) : nullptr;
}

KernelDtype kernel_dtype(at::ScalarType type) {
  if (type == at::kHalf) return KernelDtype::float16;
  return type == at::kBFloat16 ? KernelDtype::bfloat16 : KernelDtype::float32;
}

}  // namespace memtune::device
