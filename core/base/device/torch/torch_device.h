// Converts a Device to LibTorch's c10::Device.
#pragma once

#include <c10/core/Device.h>

#include "core/base/device/device.h"

namespace memtune::device {

inline c10::Device torch_device(const Device& device) {
  const auto index = static_cast<c10::DeviceIndex>(device.index());
  return device.type() == Device::Type::cpu ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, index);
}

}  // namespace memtune::device
