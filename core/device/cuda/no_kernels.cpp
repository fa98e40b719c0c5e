// In the place of kernels.cpp where there was no nvcc.
#include "core/device/cuda_kernels.h"

extern "C" __attribute__((visibility("default"))) const memtune::device::CudaKernels* memtune_cuda_kernels() {
  return nullptr;
}
