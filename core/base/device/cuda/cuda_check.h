// Converts CUDA runtime errors to DeviceError.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "core/base/error.h"

namespace memtune::device {

inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // clears the error, because LibTorch checks the last error after its own calls
  throw DeviceError(std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

}  // namespace memtune::device
