// The CPU device without LibTorch, so it has no tensors to count.
#pragma once

#include "core/base/device/cpu_emulated_device.h"

namespace memtune::tests {

inline device::CappedMemoryCounter& no_tensors() {
  static device::CappedMemoryCounter counter;
  return counter;
}

inline device::CpuEmulatedDevice& cpu_device() {
  static device::CpuEmulatedDevice device(no_tensors());
  return device;
}

}  // namespace memtune::tests
