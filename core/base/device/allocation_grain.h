// PyTorch's allocators round sizes up to a multiple of this: bytes.
#pragma once

#include <cstdint>

#include "core/base/device/device.h"

namespace memtune::device {

inline int64_t allocation_grain(const Device& device) { return device.emulated() ? 1 : 512; }

}  // namespace memtune::device
