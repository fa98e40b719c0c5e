// Kernel launches compiled by nvcc, for sources that use LibTorch. A launch is asynchronous; throws DeviceError.
#pragma once

#include <cuda_runtime.h>

#include "core/base/device/cuda_kernels.h"

namespace memtune::device {

void launch_unpack_nf4(const Nf4WeightPointers& from, void* to, KernelDtype type, cudaStream_t stream);
void launch_fold_logits(const CrossEntropyLogitTile& tile, const OnlineCrossEntropyStatePointers& statistics,
                        cudaStream_t stream);
void launch_differentiate_logits(const CrossEntropyLogitTile& tile, const float* normalizers, const float* outer,
                                 cudaStream_t stream);
void launch_hash_memory(const void* from, int64_t size, uint64_t* to, cudaStream_t stream);
void launch_step_adamw(const QuantizedAdamWArguments& step, int processors, cudaStream_t stream);

}  // namespace memtune::device
