#include "core/model/quantized/kernels.h"

#include <ATen/ATen.h>

namespace memtune::quantized {

using device::Number;

const device::CudaKernels* kernels_for(c10::Device device, at::ScalarType type) {
  const bool known = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  return device.is_cuda() && known ? device::cuda_kernels() : nullptr;
}

Number number_of(at::ScalarType type) {
  if (type == at::kHalf) return Number::float16;
  return type == at::kBFloat16 ? Number::bfloat16 : Number::float32;
}

}  // namespace memtune::quantized
