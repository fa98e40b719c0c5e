// PyTorch's allocators round sizes up to a multiple of this: bytes.
#pragma once

#include <cstdint>

#include "core/base/device/device.h"

namespace memtune::device {

inline constexpr int64_t kCudaGrain = 512;

inline int64_t allocation_grain(const Device& device) { return device.emulated() ? 1 : kCudaGrain; }

}  // namespace memtune::device
