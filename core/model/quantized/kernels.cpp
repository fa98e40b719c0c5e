#include "core/model/quantized/kernels.h"

#include <ATen/ATen.h>

namespace memtune::quantized {

using device::KernelDtype;

const device::CudaKernelTable* kernels_for(c10::Device device, at::ScalarType type) {
  const bool known = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  return device.is_cuda() && known ? device::cuda_kernels() : nullptr;
}

KernelDtype number_of(at::ScalarType type) {
  if (type == at::kHalf) return KernelDtype::float16;
  return type == at::kBFloat16 ? KernelDtype::bfloat16 : KernelDtype::float32;
}

}  // namespace memtune::quantized
