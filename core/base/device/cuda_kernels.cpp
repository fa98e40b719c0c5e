#include "core/base/device/cuda_kernels.h"

#include "core/base/device/cuda_module.h"

namespace memtune::device {

const CudaKernelTable* cuda_kernels() {
  using Get = const CudaKernelTable* (*)();
  static const CudaKernelTable* const kernels = reinterpret_cast<Get>(cuda_symbol("memtune_cuda_kernels"))();
  return kernels;
}

}  // namespace memtune::device
