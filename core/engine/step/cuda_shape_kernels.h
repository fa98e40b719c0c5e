// Shape-only operators (meta device) that allocate what CUDA's kernels allocate: attention with its saved sums and the
// workspace of its backward, dropout, reductions, optimizers that update in place. LibTorch has them for the meta
// device in Python only.
//
// Workspaces are those of PyTorch 2.11 as recorded on an H200: cuDNN's and the memory-efficient kernel's. Those of
// FlashAttention-2 are from its source (csrc/flash_attn/flash_api.cpp).
#pragma once

#include <cstdint>

#include "core/model/program/program.h"

namespace memtune::step {

// Makes attention and dropout in a program on the meta device take the kernels that a GPU of this compute capability
// would: 90 for 9.0. Attention without a fused kernel saves all its weights, as on CUDA.
void use_cuda_kernels(program::Program& program, int capability);

// From now on, on the meta device, autograd adds gradients in place where it does on CUDA, sums take a workspace, and
// cuBLAS has one.
void allocate_as_cuda(int capability);

// Bytes that cuBLAS takes from the allocator with the first multiplication, and keeps.
// Source: aten/src/ATen/cuda/CublasHandlePool.cpp.
int64_t cublas_workspace_bytes(int capability);

}  // namespace memtune::step
