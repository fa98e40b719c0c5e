// Replaces kernels.cpp in builds without nvcc.
#include "core/base/device/cuda_kernels.h"

extern "C" __attribute__((visibility("default"))) const memtune::device::CudaKernelTable* memtune_cuda_kernels() {
  return nullptr;
}
