// The bytes of a tensor's storage, apart from the tensors that share it: these stay as they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace memtune::device {

// Frees the bytes of the tensor's storage, for all tensors that share it.
void free_bytes(const at::Tensor& tensor);
// Gives the storage new bytes, whose contents are undefined.
void allocate_bytes(const at::Tensor& tensor, int64_t bytes);

}  // namespace memtune::device
