// The CPU device without LibTorch, so it has no tensors to count.
#pragma once

#include "core/base/device/cpu_device.h"

namespace memtune::tests {

inline device::MemoryCounter& no_tensors() {
  static device::MemoryCounter counter;
  return counter;
}

inline device::CpuDevice& cpu_device() {
  static device::CpuDevice device(no_tensors());
  return device;
}

}  // namespace memtune::tests
